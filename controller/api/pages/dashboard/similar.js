// Finds names like a mistyped one. It measures and chooses as `get_close_matches` of Python, as the command line does.

const MOST_NAMES = 3;
const LEAST_SIMILARITY = 0.75;

/** Return the longest text that is a part of both, with its place in each. */
function longestCommonPart(text, other) {
  let longest = { length: 0, begin: 0, otherBegin: 0 };
  let lengthsBefore = [];
  for (let place = 0; place < text.length; place++) {
    const lengths = [];
    for (let otherPlace = 0; otherPlace < other.length; otherPlace++) {
      if (text[place] !== other[otherPlace]) continue;
      const length = (lengthsBefore[otherPlace - 1] ?? 0) + 1;
      lengths[otherPlace] = length;
      if (length > longest.length) {
        longest = { length, begin: place - length + 1, otherBegin: otherPlace - length + 1 };
      }
    }
    lengthsBefore = lengths;
  }
  return longest;
}

/** Count the characters of the longest common part, and of the common parts on both sides of it. */
function countCommon(text, other) {
  const { length, begin, otherBegin } = longestCommonPart(text, other);
  if (!length) return 0;
  const before = countCommon(text.slice(0, begin), other.slice(0, otherBegin));
  const after = countCommon(text.slice(begin + length), other.slice(otherBegin + length));
  return before + length + after;
}

/** Return how similar two texts are, from 0 to 1. */
export function similarity(text, other) {
  const length = text.length + other.length;
  const isTooShort = 2 * Math.min(text.length, other.length) < LEAST_SIMILARITY * length;
  return isTooShort ? 0 : (2 * countCommon(text, other)) / length;
}

/** Return the names that are like `name`, the most similar first. */
export function similarNames(name, names) {
  const scored = names.map((candidate) => ({ candidate, score: similarity(candidate, name) }));
  const similar = scored.filter(({ score }) => score >= LEAST_SIMILARITY);
  similar.sort((first, second) => second.score - first.score || (first.candidate < second.candidate ? 1 : -1));
  return similar.slice(0, MOST_NAMES).map(({ candidate }) => candidate);
}
