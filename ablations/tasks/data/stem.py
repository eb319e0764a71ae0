"""What is left of an English word without its endings, so that relatives can be kept together.

The stem of a word is found in four steps:

1. An apostrophe at the front is dropped ('cause → cause). Contractions and possessives at the end
   (n't 's 'll 'd 've 're 'm 't and a bare ') are cut, and any other apostrophe is dropped
   (o'brien → obrien).
2. The longest ending of `ENDINGS` that the word has is cut, if at least two letters and a vowel
   (a e i o u y) remain. If there is none, a doubled last consonant is made single.
3. Step 2 is repeated until nothing changes: runners → runner → runn → run.
4. A last i becomes y: ties → ti → ty, like tying.

The endings are written without e or y where both are cut anyway (-ive → iv), so that an inflected
form and its base come to the same stem: actives → activ → act, active → activ → act.

The rule groups too much rather than too little: car, care and caring are one stem. That costs
nothing where a stem only decides which side of a split a word falls on. It does not see prefixes,
compounds, irregular forms or other spellings of a name.
"""

from __future__ import annotations

CONTRACTIONS = ("n't", "'ll", "'ve", "'re", "'s", "'d", "'m", "'t", "'")
ENDINGS = (  # the longest first
    "ness", "ment", "less",
    "ing", "est", "abl", "ibl", "ful", "ion", "ity", "iti", "ous", "ism", "ist", "ish",
    "es", "ed", "er", "or", "ly", "li", "at", "iv", "al", "ic", "iz", "en",
    "s", "y", "e", "i",
)  # fmt: skip
VOWELS = frozenset("aeiouy")

# Only endings with the word's own last letter need be tried.
_BY_LAST_LETTER = {
    letter: [ending for ending in ENDINGS if ending[-1] == letter]
    for letter in {ending[-1] for ending in ENDINGS}
}


def stem(word: str) -> str:
    """The stem of a word of the letters a–z and apostrophes."""
    if "'" in word:
        word = _without_apostrophes(word)
    while True:
        shorter = _shorten(word)
        if shorter == word:
            break
        word = shorter
    return word[:-1] + "y" if word.endswith("i") else word


def _without_apostrophes(word: str) -> str:
    word = word.lstrip("'")
    while word.endswith(CONTRACTIONS):
        word = word.removesuffix(next(c for c in CONTRACTIONS if word.endswith(c)))
    return word.replace("'", "")


def _shorten(word: str) -> str:
    for ending in _BY_LAST_LETTER.get(word[-1:], ()):
        if word.endswith(ending):
            rest = word[: -len(ending)]
            if len(rest) >= 2 and not VOWELS.isdisjoint(rest):
                return rest
    if len(word) > 2 and word[-1] == word[-2] and word[-1] not in VOWELS:
        return word[:-1]
    return word
