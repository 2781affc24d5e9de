/** Suggests the name that was probably meant, for a misspelt option or field. */

/** The smallest share of common letter pairs at which one name is suggested for another. */
const ENOUGH = 0.4

/** Returns the known name whose spelling is nearest, or undefined where none is near. */
export function nearestName(name: string, known: readonly string[]): string | undefined {
  const given = pairsOf(name)
  const likeness = (one: string) => {
    const pairs = pairsOf(one)
    return (2 * pairs.filter((pair) => given.includes(pair)).length) / (pairs.length + given.length)
  }
  const [nearest] = [...known].sort((a, b) => likeness(b) - likeness(a))
  return nearest !== undefined && likeness(nearest) >= ENOUGH ? nearest : undefined
}

/** The end of a message about a name: what was probably meant, if anything. */
export function didYouMean(name: string | undefined): string {
  return name === undefined ? '' : `: did you mean ${JSON.stringify(name)}?`
}

/** Removes case and word separators from a name: `birth_date` and `birthDate` become `birthdate`. */
export function plainName(name: string): string {
  return name.toLowerCase().replace(/[\s_.-]/g, '')
}

/** Each letter with the next one. */
function pairsOf(name: string): string[] {
  const plain = plainName(name)
  return Array.from(plain.slice(1), (letter, at) => plain.charAt(at) + letter)
}
