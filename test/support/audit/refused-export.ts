// The files of export.vectors.json that a verifier must refuse, and the options for each file.

import vectors from '../../../packages/audit/src/formats/export.vectors.json' with { type: 'json' }
import type { VerifyExportOptions } from '../../../packages/audit/src/verify/verify-export.js'

/** Makes the file of a vector of `refuse`: a valid file with one fault. */
export function refusedExport({ head, tail, ...row }: (typeof vectors.refuse)[number]): Buffer {
  const base = row.base === undefined ? vectors.valid[0] : vectors.valid.find(({ name }) => name === row.base)
  const file = Buffer.from(base?.file ?? '')
  const insert = row.insert === undefined ? Buffer.from(row.insert_base64 ?? '', 'base64') : Buffer.from(row.insert)
  return Buffer.concat([file.subarray(0, head), insert, file.subarray(file.length - tail)])
}

/** The options that a verifier gets with a file. */
export function optionsOf({
  public_key: publicKey = vectors.public_key,
  checkpoint,
  checkpoints,
  tree,
}: {
  public_key?: string
  tree?: string
  checkpoint?: string
  checkpoints?: readonly string[]
}): VerifyExportOptions & { publicKey: string } {
  return {
    publicKey,
    ...(checkpoint === undefined ? {} : { checkpoint }),
    ...(checkpoints === undefined ? {} : { checkpoints }),
    ...(tree === undefined ? {} : { tree }),
  }
}
