/**
 * What blind indexes are made of: the normalised text of one field, or of several joined.
 *
 * An index of several fields is made of `eaas/compound/v1` and then, for each field in the order of the definition, a colon,
 * the length of its normalised text in UTF-8 bytes, in decimal, a colon, and the text: `eaas/compound/v1:3:Ada:5:Paris`. The
 * lengths come first, so that no two lists of texts give the same.
 */
import { encodeUtf8 } from '@eaas/protocol'
import { InvalidInputError, type RecordPlace } from '../errors.js'
import { demandHashable, demandWhole } from '../input.js'

/**
 * What is done to a text before its index is made: `trim` (white space at both ends), `lowercase` (of Unicode, no locale's),
 * `NFC` and `NFKC` (Unicode normalisation), `digits` (keeps 0 to 9), or a function of the application's own, which must give
 * the same for the same text for ever.
 */
export type Normalizer = 'trim' | 'lowercase' | 'NFC' | 'NFKC' | 'digits' | ((text: string) => string)

const HASH_BITS = 256
const COMPOUND = 'eaas/compound/v1'

const NORMALIZERS: Readonly<Record<Exclude<Normalizer, (text: string) => string>, (text: string) => string>> = {
  trim: (text) => text.trim(),
  lowercase: (text) => text.toLowerCase(),
  NFC: (text) => text.normalize('NFC'),
  NFKC: (text) => text.normalize('NFKC'),
  digits: (text) => text.replace(/[^0-9]/g, ''),
}

/** Refuses normalisers and a number of bits that there are not. @throws InvalidInputError naming the column */
export function demandIndex(column: string, normalize: readonly unknown[], bits: unknown): void {
  if (
    !Array.isArray(normalize) ||
    !normalize.every((one) => typeof one === 'function' || Object.hasOwn(NORMALIZERS, one))
  ) {
    const names = Object.keys(NORMALIZERS).join(', ')
    throw new InvalidInputError(`${JSON.stringify(column)}: normalize must hold ${names}, or functions`)
  }
  if (bits !== undefined) demandWhole(`${JSON.stringify(column)}: bits`, bits, 4, HASH_BITS)
}

/** Normalises a text for its index. @throws InvalidInputError when what comes out cannot be indexed */
export function normalizeText(text: string, normalize: readonly Normalizer[], place: RecordPlace): string {
  let normalized = text
  for (const one of normalize) {
    normalized = (typeof one === 'function' ? one : NORMALIZERS[one])(normalized)
    if (typeof normalized !== 'string') throw new InvalidInputError('a normalizer must return text', undefined, place)
  }
  demandHashable(normalized, place)
  return normalized
}

/** Joins the texts of several fields, so that no two lists give the same. */
export function joinTexts(texts: readonly string[]): string {
  return [COMPOUND, ...texts.map((text) => `${encodeUtf8(text).length}:${text}`)].join(':')
}

/** The first bits of an index, in as many hexadecimal digits as hold them; the rest of the last digit is zero. */
export function truncate(hash: string, bits: number = HASH_BITS): string {
  const digits = Math.ceil(bits / 4)
  const surplus = digits * 4 - bits
  const last = Number.parseInt(hash.charAt(digits - 1), 16)
  return hash.slice(0, digits - 1) + ((last >> surplus) << surplus).toString(16)
}

const LOW_ENTROPY =
  /^(?:birth(?:day|date)?|dateofbirth|dob|born|age|gender|sex|zip(?:code)?|postal(?:code)?|postcode|plz|country|nationality|religion|race|ethnicity|marital|blood|diagnosis|salary|pin)$/

const warned = new Set<string>()

/** Warns once a process of an index, by its column and its fields, over what has so few values that they can all be tried. */
export function warnOfFewValues(column: string, fields: readonly string[]): void {
  const index = JSON.stringify([column, fields])
  if (warned.has(index) || !fields.every(hasFewValues)) return
  warned.add(index)
  console.warn(
    `@eaas/sdk: the index ${JSON.stringify(column)} is over ${fields.join(', ')}, which looks like data of few possible ` +
      'values: whoever reads the column and may call hash can find them all. Leave it out, join it with another field, or ' +
      'pass `warn: false`.',
  )
}

function hasFewValues(field: string): boolean {
  const words = field.split(/[^A-Za-z]+|(?<=[a-z])(?=[A-Z])/).map((word) => word.toLowerCase())
  // Two in a row may be one word: `post_code`.
  return words.some((word, at) => LOW_ENTROPY.test(word) || LOW_ENTROPY.test(word + (words[at + 1] ?? '')))
}
