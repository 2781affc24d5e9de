/** Makes a root key: as a file, encrypted to recipients, or in shares. */
import { join, resolve } from 'node:path'
import { createNewBy, createNewFolder, readGiven } from '@eaas/audit/command'
import { counted, encodeBase64 } from '@eaas/protocol'
import { randomKey } from '../core/crypto/aead.js'
import { RootKeyError } from '../core/crypto/key-hierarchy.js'
import { encryptTo } from './age.js'
import { parseRootKey } from './local-key.js'
import { SHARE_LIMITS, splitRootKey } from './root-key-share.js'

export interface RootKeyForm {
  path: string // the file to create, `-` for standard output, or with `split` the folder
  recipients: readonly string[] // recipients of age; without any, nothing is encrypted
  split?: Split | undefined // the number of shares, and how many of them give the root key; by default it is not split
  from?: string | undefined // a file with the root key; by default a new one is made
}

type Split = Record<'shares' | 'threshold', number>

type MadeRootKey = { files: string[]; set?: string }

/** Makes a root key. Either all files are created and on disk, or none is. @throws RecipientError, CommandError */
export async function makeRootKey({ path, recipients, split, from }: RootKeyForm): Promise<MadeRootKey> {
  if (split) assertSplit(split, recipients.length)
  const encrypt = recipients.length > 0 && !split ? await encryptTo(recipients) : undefined
  const rootKey = from === undefined ? randomKey() : parseRootKey((await readGiven(from)).trim(), from).export()
  try {
    if (split) return await writeShares(rootKey, { path, recipients, split })
    await createNewBy(path, async (sink) => {
      const text = `${encodeBase64(rootKey)}\n`
      await sink.write(encrypt ? await withText(text, encrypt) : text)
    })
    return { files: [resolve(path)] }
  } finally {
    rootKey.fill(0)
  }
}

/** @throws RootKeyError if the split is impossible, or the recipients are not one for each share */
function assertSplit({ shares, threshold }: Split, recipients: number): void {
  const { min, max } = SHARE_LIMITS
  if (threshold < min || shares < threshold || shares > max)
    throw new RootKeyError(
      `A root key is split into ${min} to ${max} shares, of which at least ${min} and at most all are needed, got ${counted(shares, 'share')} and the threshold ${threshold}.`,
    )
  if (recipients > 0 && recipients !== shares)
    throw new RootKeyError(
      `Each share is for one recipient: give ${shares} recipients, or none for shares that are not encrypted, got ${recipients}.`,
    )
}

type Shares = Pick<RootKeyForm, 'path' | 'recipients'> & { split: Split }

async function writeShares(rootKey: Uint8Array, { path, recipients, split }: Shares): Promise<MadeRootKey> {
  if (recipients.length > 0) await encryptTo(recipients) // refuses a recipient that is given twice
  const { set, lines } = await splitRootKey(rootKey, split)
  const texts = new Map<string, string>()
  for (const [at, line] of lines.entries()) {
    const recipient = recipients[at]
    const text = `${line}\n`
    if (recipient === undefined) texts.set(`share-${at + 1}`, text)
    else texts.set(`share-${at + 1}.age`, await withText(text, await encryptTo([recipient])))
  }
  await createNewFolder(path, texts)
  return { files: [...texts.keys()].map((name) => join(resolve(path), name)), set }
}

async function withText(text: string, encrypt: (bytes: Uint8Array) => Promise<string>): Promise<string> {
  const bytes = Buffer.from(text)
  try {
    return await encrypt(bytes)
  } finally {
    bytes.fill(0)
  }
}
