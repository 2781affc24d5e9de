// Independent test vectors: Project Wycheproof, from the folder that EAAS_VECTORS names.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Byte strings are lower-case hex; sizes of groups are bits. */
interface WycheproofTest {
  tcId: number
  comment: string
  result: 'valid' | 'invalid' | 'acceptable'
}

export interface AesGcmTest extends WycheproofTest {
  key: string
  iv: string
  aad: string
  msg: string
  ct: string
  tag: string
}

export interface HmacTest extends WycheproofTest {
  key: string
  msg: string
  tag: string
}

interface Groups {
  aes_gcm_test: { keySize: number; ivSize: number; tagSize: number; tests: AesGcmTest[] }
  hmac_sha256_test: { keySize: number; tagSize: number; tests: HmacTest[] }
}

export interface WycheproofFile<Name extends keyof Groups> {
  numberOfTests: number
  testGroups: Groups[Name][]
}

let saidSo = false

/**
 * Reads one file of Wycheproof's `testvectors_v1`. Returns undefined, and prints a line once, when EAAS_VECTORS is not set.
 * @throws when EAAS_VECTORS is set and the file is missing or has another number of tests than it states
 */
export function loadWycheproof<Name extends keyof Groups>(name: Name): WycheproofFile<Name> | undefined {
  const folder = process.env.EAAS_VECTORS
  if (!folder) {
    if (!saidSo) console.warn("EAAS_VECTORS is not set: only the project's own vectors ran, not Wycheproof's.")
    saidSo = true
    return undefined
  }
  const path = join(folder, `${name}.json`)
  if (!existsSync(path))
    throw new Error(`${path} is not there: EAAS_VECTORS must name the folder of Wycheproof's files`)
  const file: WycheproofFile<Name> = JSON.parse(readFileSync(path, 'utf8'))
  const found = file.testGroups.reduce((sum, group) => sum + group.tests.length, 0)
  if (found !== file.numberOfTests) throw new Error(`${path} holds ${found} tests, expected ${file.numberOfTests}`)
  return file
}
