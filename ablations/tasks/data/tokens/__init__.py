"""What a token is: a character, a word, or a piece of one."""

from ablations.tasks.data.tokens.bpe import BytePairs
from ablations.tasks.data.tokens.characters import Characters
from ablations.tasks.data.tokens.family import TOKENS, Tokens
from ablations.tasks.data.tokens.words import Words

__all__ = ["TOKENS", "BytePairs", "Characters", "Tokens", "Words"]
