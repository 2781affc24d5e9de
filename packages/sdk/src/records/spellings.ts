/** How SQL may have spelled stored text or bytes: as hex, as base64 in lines, as a JSON string. */
import { binaryString, decodeBase64, decodeHex, encodeBase64 } from '@eaas/protocol'
import { readBinary } from '../input.js'

// Quotes, brackets, backslashes and invisible characters may come first, if JSON was written twice or text was pasted.
// Hex without `\x` has a minimum length, since telephone numbers are also hex.
const HEX = /^([\s\p{C}"'[\\]*)(?:\\x|(?=[\da-f]{20}))([\da-f]+)/iu
const BASE64 = /^([\s\p{C}"'[\\]*)([A-Za-z\d+/\s]+={0,2})/u
/** Marks where something was cut off, so that no strict reader accepts the rest. */
const CUT = '…'
const MAX_LAYERS = 4

/** Returns the text, and what each encoding around it holds (base64: one character per byte), even if it is truncated. */
export function spellingsOf(stored: unknown): string[] {
  const spellings: string[] = []
  let left = ''
  let value = typeof stored === 'string' ? stored : readBinary(stored)
  for (let layer = 0; layer < MAX_LAYERS && value !== undefined; layer++) {
    if (typeof value !== 'string') {
      spellings.push(encodeBase64(value) + left)
      value = binaryString(value) + left
    }
    spellings.push(value)
    const string = parseString(value)
    const decoded: { bytes: Uint8Array; isWhole: boolean } | undefined =
      string === undefined ? decode(value) : undefined
    if (decoded && !decoded.isWhole) left = CUT
    value = string ?? decoded?.bytes
  }
  return spellings
}

function parseString(text: string): string | undefined {
  try {
    const parsed: unknown = /^\s*"/.test(text) ? JSON.parse(text) : undefined
    return typeof parsed === 'string' ? parsed : undefined
  } catch {
    return undefined // truncated, or not JSON
  }
}

function decode(text: string): { bytes: Uint8Array; isWhole: boolean } | undefined {
  const hex = HEX.exec(text)
  const [all = '', before = '', run = ''] = hex ?? BASE64.exec(text) ?? []
  const digits = run.replaceAll(/\s/g, '')
  const isWhole = (before + text.slice(all.length)).trim() === ''
  const group = hex ? 2 : 4
  const groups = digits.replace(/=+$/, '')
  for (const some of [digits, groups.slice(0, groups.length - (groups.length % group))]) {
    if (some === '' || some.length % group !== 0) continue
    try {
      const bytes = hex ? decodeHex(some.toLowerCase()) : decodeBase64(some)
      return { bytes, isWhole: isWhole && some === digits }
    } catch {
      // Its last group is not canonical; the second attempt leaves that group out.
    }
  }
  return undefined
}
