/** A root key in shares that a team keeps, read from files or from the terminal. */
import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import type { RootKeySetting } from '../core/config.js'
import { importKey } from '../core/crypto/aead.js'
import { RootKeyError, type RootKeyProvider } from '../core/crypto/key-hierarchy.js'
import { localProvider, readSecret } from './local-key.js'
import { combineShares, describeShare, findMisfit, readShare, type Share } from './root-key-share.js'

/** The setting instead of files: asks for the shares on the terminal. */
export const ASK = 'ask'

/** By setting, so that each person enters a share once for a start or a command. */
const opened = new WeakMap<RootKeySetting, Promise<RootKeyProvider>>()

/** Keeps the root key in memory for later rotations. @throws RootKeyError */
export function sharesProvider(setting: RootKeySetting): Promise<RootKeyProvider> {
  const provider = opened.get(setting) ?? openShares(setting.value)
  opened.set(setting, provider)
  return provider
}

async function openShares(value: string): Promise<RootKeyProvider> {
  const shares = value === ASK ? await askForShares() : await readShareFiles(value)
  try {
    const key = importKey(await combineShares(shares))
    return localProvider(key, { kind: 'shares', name: `set ${shares[0]?.set}` })
  } finally {
    for (const { point } of shares) point.fill(0)
  }
}

export function listShareFiles(list: string): string[] {
  return list.split(',').map((file) => file.trim())
}

async function readShareFiles(list: string): Promise<Share[]> {
  const files = listShareFiles(list)
  if (files.includes('')) throw new RootKeyError('The list of files with shares has an empty name between its commas.')
  return Promise.all(files.map(async (file) => readShare(await readSecret(file, `The share ${file}`), file)))
}

/** Asks until enough shares of one set are given; Ctrl-C ends the process. @throws RootKeyError without a terminal */
async function askForShares(): Promise<Share[]> {
  const { stdin, stderr } = process
  if (!stdin.isTTY) {
    throw new RootKeyError(
      'The shares of the root key are to be asked for, but standard input is no terminal. Name their files instead: EAAS_ROOT_KEY_SHARES=share-1,share-2,share-3',
    )
  }
  const say = (text: string) => void stderr.write(text)
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() })
  const lines = createInterface({ input: stdin, output: nowhere, terminal: true, historySize: 0 })
  let endedBy: NodeJS.Signals | undefined
  const end = (signal: NodeJS.Signals) => {
    endedBy = signal
    lines.close()
  }
  lines.once('SIGINT', () => end('SIGINT'))
  process.once('SIGHUP', end) // the terminal may outlive this process, for example under a parent shell
  try {
    say('The root key is in shares. Paste or type one after the other; nothing is shown.\nA share: ')
    // By set, so that a person who enters a share of an earlier set does not block the others.
    const sets = new Map<string, Share[]>()
    for await (const line of lines) {
      say('\n')
      if (line.trim() !== '') say(`${take(line, sets)}\n`)
      const whole = [...sets.values()].find((shares) => shares.length === shares[0]?.threshold)
      if (whole) {
        for (const others of sets.values()) if (others !== whole) for (const { point } of others) point.fill(0)
        return whole
      }
      say(sets.size === 0 ? 'A share: ' : `A share (${[...sets.values()].map(describeMissing).join(', or ')}): `)
    }
    say('\n')
    throw new RootKeyError('The terminal was closed before all shares of the root key were given.')
  } finally {
    lines.close() // before the signal, so that the terminal shows typed text again
    process.off('SIGHUP', end)
    if (endedBy) process.kill(process.pid, endedBy)
  }
}

function describeMissing(shares: readonly Share[]): string {
  const [{ set = '', threshold = 0 } = {}] = shares
  return `${shares.length} of ${threshold} of the set ${set} given`
}

/** Adds a line to its set if it is a share that fits; returns which share it is, or its fault. */
function take(line: string, sets: Map<string, Share[]>): string {
  try {
    const share = readShare(line, 'What was given')
    const name = `${share.set} ${share.threshold}`
    const others = sets.get(name) ?? []
    const misfit = findMisfit(share, others)
    if (misfit !== undefined) return misfit
    sets.set(name, [...others, share])
    return `That is ${describeShare(share)}.${sets.size > 1 ? ' Shares of two sets were given: those of one go together.' : ''}`
  } catch (error) {
    if (error instanceof RootKeyError) return error.message
    throw error
  }
}
