"""What a token is: a character, a word, or a piece of one."""

from ablations.tasks.tokens.bpe import BytePairs
from ablations.tasks.tokens.characters import Characters
from ablations.tasks.tokens.family import TOKENS, Tokens
from ablations.tasks.tokens.words import Words

__all__ = ["TOKENS", "BytePairs", "Characters", "Tokens", "Words"]
