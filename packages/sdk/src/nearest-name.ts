/** Finds the name that somebody meant: for a misspelt option, or a field that is in no record. */

/** The least share of letter pairs that two names have in common. */
const ENOUGH = 0.4

/** The known name that is spelt most like the given one; undefined where none is near. */
export function nearestName(name: string, known: readonly string[]): string | undefined {
  const given = pairsOf(name)
  const likeness = (one: string) => {
    const pairs = pairsOf(one)
    return (2 * pairs.filter((pair) => given.includes(pair)).length) / (pairs.length + given.length)
  }
  const [nearest] = [...known].sort((a, b) => likeness(b) - likeness(a))
  return nearest !== undefined && likeness(nearest) >= ENOUGH ? nearest : undefined
}

/** A name without case and without what separates its words: `birth_date`, `birthDate` and `birthdate` are one. */
export function plainName(name: string): string {
  return name.toLowerCase().replace(/[\s_.-]/g, '')
}

/** Each letter with the next one. */
function pairsOf(name: string): string[] {
  const plain = plainName(name)
  return Array.from(plain.slice(1), (letter, at) => plain.charAt(at) + letter)
}
