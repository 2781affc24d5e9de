/** Detects what other libraries stored by how it begins: it must not be sealed as if it were plaintext. */
import { spellingsOf } from '../records/spellings.js'

interface Library {
  name: string
  /** The reader of its values. */
  reader: string
  /** How a value begins as text, bytes in base64. */
  beginning: RegExp
}

/**
 * A message of AWS begins with version 1 and type (01 80) or version 2 (02), then the id of an algorithm suite (0014,
 * 0046, 0078 and so on to 0378; 0478 or 0578), in full, so that a name such as AYADI is none. Blanks and quotes may
 * precede each where text was pasted.
 */
const LIBRARIES = {
  cloak: { name: '@47ng/cloak', reader: 'cloakReader', beginning: /^[\s\p{C}"']*v1\.aesgcm256\./u },
  transit: { name: 'Transit of Vault', reader: 'transitReader', beginning: /^[\s\p{C}"']*vault:v\d+:/u },
  aws: {
    name: 'the AWS Encryption SDK',
    reader: 'awsMessageReader',
    beginning: /^[\s\p{C}"']*A(?:YA[A-D](?:F[A-P]|R[g-v]|e[A-P]|[FRe]?$)|gR4|gV4)/u,
  },
} as const satisfies Record<string, Library>

/**
 * Returns a value as its library writes it, without the encodings around it; undefined if it does not begin like a
 * value of the library. A truncated one no longer has the library's form.
 */
export function spelledAs(library: keyof typeof LIBRARIES, stored: unknown): string | undefined {
  return spellingsOf(stored).findLast((text) => LIBRARIES[library].beginning.test(text))
}

/** Returns the library whose values begin like this one. */
export function findLibrary(stored: unknown): Library | undefined {
  const texts = spellingsOf(stored)
  return Object.values(LIBRARIES).find(({ beginning }) => texts.some((text) => beginning.test(text)))
}
