/** A share of a root key as a line of text, split and combined by Shamir's scheme (root-key-share.md). */
import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { concatBytes, decodeHex, encodeHex, KEY_BYTES } from '@eaas/protocol'
import { RootKeyError } from '../core/crypto/key-hierarchy.js'

const FORMAT = 'eaas-root-key-share-v1'
const PROOF_LABEL = 'eaas/root-key-share/v1'
const SET_BYTES = 8
const PROOF_BYTES = 16
const CHECKSUM_DIGITS = 8
/** One line with the beginning of a share, and the checksum after its last dot. */
const LINE = /^(eaas-root-key-share-v1\.\S*)\.([^.\s]*)$/
const CHECKED = /^[^.]+\.([0-9a-f]{16})\.([1-9]\d{0,2})\.([1-9]\d{0,2})\.([0-9a-f]{98})$/
/** The limits of the number of shares and of the threshold. The field has no more points. */
export const SHARE_LIMITS = { min: 2, max: 255 } as const

export interface Share {
  set: string // names the split: 16 hexadecimal digits, not secret
  threshold: number // how many shares of its set give the root key
  number: number // from 1, in the order of the recipients
  point: Uint8Array // the shared bytes, then their coordinate; secret
}

/** `lines` has the text of each share, by number; they are secret. */
type SharedKey = { set: string; lines: string[] }

/** Splits a root key; fewer than `threshold` shares reveal nothing about it (root-key-share.md 2). */
export async function splitRootKey(
  rootKey: Uint8Array,
  { shares, threshold }: Record<'shares' | 'threshold', number>,
): Promise<SharedKey> {
  const { split } = await import('shamir-secret-sharing') // loaded on use
  const setBytes = randomBytes(SET_BYTES)
  const set = encodeHex(setBytes)
  const secret = concatBytes(rootKey, proofOf(rootKey, set, threshold))
  const points = await split(secret, shares, threshold)
  try {
    const lines = points.map((point, at) => encodeShare({ set, threshold, number: at + 1, point }))
    await assertGives(lines, { threshold, rootKey })
    return { set, lines }
  } finally {
    for (const bytes of [secret, ...points]) bytes.fill(0)
  }
}

/** Writes a share as its line of text, without a line end (root-key-share.md 1). */
function encodeShare({ set, threshold, number, point }: Share): string {
  const text = `${FORMAT}.${set}.${threshold}.${number}.${encodeHex(point)}`
  return `${text}.${checksumOf(text)}`
}

/** Reads a share. Messages name its `source` but never repeat the text. @throws RootKeyError */
export function readShare(text: string, source: string): Share {
  const trimmed = text.trim()
  if (/^(-----BEGIN AGE|age-encryption\.org\/)/.test(trimmed))
    throw new RootKeyError(
      `${source} is still encrypted. Its recipient decrypts it: age -d -i IDENTITY -o SHARE ENCRYPTED-SHARE`,
    )
  const [, checked = '', checksum] = LINE.exec(trimmed) ?? []
  if (checked === '')
    throw new RootKeyError(
      `${source} is not a share of a root key: one line that begins with ${FORMAT}. It may have more than that line.`,
    )
  if (checksumOf(checked) !== checksum)
    throw new RootKeyError(`${source} is a share that was altered, mistyped or cut: its checksum is wrong.`)
  const [, set = '', threshold, number, hex = ''] = CHECKED.exec(checked) ?? []
  const share = { set, threshold: Number(threshold), number: Number(number), point: decodeHex(hex) }
  const isPossible = [share.threshold, share.number].every((value) => value <= SHARE_LIMITS.max)
  // The value at coordinate 0 is the secret itself: an attacker who gives such a share would choose the root key.
  if (!isPossible || share.threshold < SHARE_LIMITS.min || share.point.at(-1) === 0)
    throw new RootKeyError(`${source} is a share that no split makes: somebody altered it.`)
  return share
}

/** Names a share for messages, without secrets. */
export function describeShare({ set, number, threshold }: Share): string {
  return `share ${number} of the set ${set}, ${threshold} of which are needed`
}

/** Returns why a share does not fit others of one set; undefined if it does. */
export function findMisfit(share: Share, others: readonly Share[]): string | undefined {
  const stranger = others.find(({ set, threshold }) => set !== share.set || threshold !== share.threshold)
  if (stranger) {
    return `Shares of two sets do not go together: ${describeShare(share)}, and ${describeShare(stranger)}. Give those of one set.`
  }
  const isSame = ({ number, point }: Share) => number === share.number || point.at(-1) === share.point.at(-1)
  const same = others.find(isSame)
  if (!same) return undefined
  return same.number === share.number
    ? `Share ${share.number} of the set ${share.set} was given twice.`
    : `Shares ${same.number} and ${share.number} of the set ${share.set} are the same one: the number of one was altered.`
}

/** Combines shares into the root key, which the caller zeroes (root-key-share.md 3). @throws RootKeyError */
export async function combineShares(shares: readonly Share[]): Promise<Uint8Array> {
  const [first] = shares
  if (!first) throw new RootKeyError('There is no share of the root key.')
  for (const [at, share] of shares.entries()) {
    const misfit = findMisfit(share, shares.slice(0, at))
    if (misfit !== undefined) throw new RootKeyError(misfit)
  }
  const { set, threshold } = first
  const numbers = shares.map(({ number }) => number).join(', ')
  if (shares.length < threshold)
    throw new RootKeyError(`The set ${set} needs ${threshold} shares, got ${shares.length}: ${numbers}.`)
  const { combine } = await import('shamir-secret-sharing')
  const secret = await combine(shares.map(({ point }) => point))
  const rootKey = secret.slice(0, KEY_BYTES)
  const isProven = timingSafeEqual(secret.subarray(KEY_BYTES), proofOf(rootKey, set, threshold))
  secret.fill(0)
  if (isProven) return rootKey
  rootKey.fill(0)
  throw new RootKeyError(
    `The shares ${numbers} of the set ${set} give no root key: one of them was altered. Try other shares to find which.`,
  )
}

// Combines each share once: otherwise a useless share would be noticed only when the root key is needed.
async function assertGives(
  lines: readonly string[],
  { threshold, rootKey }: { threshold: number; rootKey: Uint8Array },
): Promise<void> {
  for (let from = 0; from < lines.length; from += threshold) {
    const some = Array.from({ length: threshold }, (_, at) => lines[(from + at) % lines.length] ?? '')
    const shares = some.map((line) => readShare(line, 'a share'))
    const combined = await combineShares(shares)
    const isEqual = timingSafeEqual(combined, rootKey)
    for (const bytes of [combined, ...shares.map(({ point }) => point)]) bytes.fill(0)
    if (!isEqual) throw new Error('the shares do not give the root key')
  }
}

// The proof is split with the root key, so that no share reveals anything about it (root-key-share.md 2).
function proofOf(rootKey: Uint8Array, set: string, threshold: number): Uint8Array {
  const hmac = createHmac('sha256', rootKey).update(PROOF_LABEL).update(decodeHex(set)).update(Uint8Array.of(threshold))
  return new Uint8Array(hmac.digest().subarray(0, PROOF_BYTES))
}

// Detects typing errors only; the proof detects deliberate changes.
function checksumOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, CHECKSUM_DIGITS)
}
