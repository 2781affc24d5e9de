/** Suggests the name that was probably meant, for a misspelt option or field. */

/** The smallest share of common letter pairs at which one name is suggested for another. */
const ENOUGH = 0.4

/** Returns the known name whose spelling is nearest, or undefined where none is near. */
export function nearestName(name: string, known: readonly string[]): string | undefined {
  const given = pairsOf(name)
  let nearest: string | undefined
  let most = 0
  for (const one of known) {
    const pairs = pairsOf(one)
    const likeness = (2 * pairs.filter((pair) => given.includes(pair)).length) / (pairs.length + given.length)
    if (likeness >= ENOUGH && likeness > most) [nearest, most] = [one, likeness]
  }
  return nearest
}

/** The end of a message about a name: what was probably meant, if anything. */
export function didYouMean(name: string | undefined): string {
  return name === undefined ? '' : `: did you mean ${JSON.stringify(name)}?`
}

/** Removes case and word separators from a name: `birth_date` and `birthDate` become `birthdate`. */
export function plainName(name: string): string {
  return name.toLowerCase().replace(/[\s_.-]/g, '')
}

/** Pairs each letter with the next one. The beginning of a long name is enough, since nobody declares one. */
function pairsOf(name: string): string[] {
  const plain = plainName(name.slice(0, 128))
  return Array.from(plain.slice(1), (letter, at) => plain.charAt(at) + letter)
}
