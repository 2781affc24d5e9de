// What a witness answers: the published runs of requests, each against a witness that has cosigned nothing.

import { createSecretKey, generateKeyPairSync } from 'node:crypto'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { encodeBase64, encodeUtf8 } from '@eaas/protocol'
import { describe, expect, it } from 'vitest'
import { encodePublicKey } from '../formats/checkpoint.js'
import { createWitnessKey, readCosignature } from '../formats/cosignature.js'
import vectors from '../formats/cosignature.vectors.json' with { type: 'json' }
import { merkleRoot } from '../formats/merkle.js'
import { encodeNoteKey, readSignatures, signatureLine, splitNote } from '../formats/signed-note.js'
import { readTreeKey } from '../formats/tree.js'
import { signerOf, signingKeyOf } from '../node/signing-key.js'
import { readLogList } from './config.js'
import { LostDirectoryError } from './directory.js'
import { admit, WitnessRefusal } from './judge.js'
import { readState, WitnessError, type WitnessState, writeState } from './state-file.js'
import { createWitnessService, type WitnessEvents } from './witness.js'

const NOW_S = 1_790_000_000
const signingKey = signingKeyOf(createSecretKey(Buffer.alloc(32, 7)))
const key = createWitnessKey('witness.example/w1', signingKey)

/** A witness in memory; `saved` has each state that it wrote, the newest last. */
function openWitness(
  logs: readonly string[],
  {
    save,
    assertHeld = () => undefined,
    events = {},
  }: { save?: () => Promise<void>; assertHeld?: () => void; events?: Partial<WitnessEvents> } = {},
) {
  const saved: WitnessState[] = []
  const service = createWitnessService(
    {
      key,
      signingKey,
      logs: readLogList(logs.join('\n'), 'logs'),
      state: { witness: 'a key', logs: new Map() },
      async save(state) {
        await save?.()
        saved.push(state)
      },
      assertHeld,
    },
    { now: () => NOW_S * 1_000 + 999, events: { cosigned: () => undefined, contradicted: () => undefined, ...events } },
  )
  return { ...service, saved }
}

async function answerOf(witness: { addCheckpoint(body: Uint8Array): Promise<string> }, body: string) {
  return witness.addCheckpoint(encodeUtf8(body)).then(
    (line) => ({ status: 200, line, size: undefined }),
    (error: unknown) => {
      if (!(error instanceof WitnessRefusal)) throw error
      return { status: error.status, line: '', size: error.size }
    },
  )
}

/** The note of a request, as its text. */
const textOf = (body: string) => splitNote(body.slice(body.indexOf('\n\n') + 2)).text
const sizeOf = (body: string) => Number(textOf(body).split('\n')[1])

describe.each(vectors.runs)('a witness that is sent the requests of $name', ({ logs, requests }) => {
  it('answers each as published, and cosigns what is on disk by then', async () => {
    const witness = openWitness(logs)
    for (const { name, status, body, ...more } of requests) {
      const answer = await answerOf(witness, body)
      expect({ name, status: answer.status, size: answer.size }).toEqual({
        name,
        status,
        size: 'size' in more ? more.size : undefined,
      })
      if (status !== 200) continue
      expect(readCosignature(readSignatures(answer.line), key, textOf(body))).toBe(NOW_S)
      expect([...(witness.saved.at(-1)?.logs.values() ?? [])].map(({ size }) => size)).toEqual([sizeOf(body)])
    }
  })
})

describe('a request that is none', () => {
  it.each(vectors.refuse_requests)('is answered with 400: $name', ({ body }) => {
    const logs = readLogList(vectors.runs[0]?.logs[0] ?? '', 'logs')
    expect(() => admit(encodeUtf8(body), logs)).toThrow(expect.objectContaining({ status: 400 }))
  })
})

describe('a witness', () => {
  const [run] = vectors.runs
  const logs = run?.logs ?? []
  const bodyOf = (name: string) => run?.requests.find((request) => request.name === name)?.body ?? ''
  const [first, larger, fork] = ['a first tree', 'a larger tree', 'another tree of this size'].map(bodyOf)

  it('signs nothing whose state could not be written, and then still knows what it cosigned last', async () => {
    let isFull = true
    const witness = openWitness(logs, {
      async save() {
        if (isFull) throw new Error('no space left on device')
      },
    })
    await expect(witness.addCheckpoint(encodeUtf8(first ?? ''))).rejects.toThrow('no space left')
    isFull = false
    expect(await answerOf(witness, larger ?? '')).toMatchObject({ status: 409, size: 0 })
    expect(await answerOf(witness, first ?? '')).toMatchObject({ status: 200 })
  })

  it('signs nothing, not even again, once its directory is lost, and says so', async () => {
    let isLost = true
    const lose = () => {
      if (isLost) throw new LostDirectoryError('/witness', 'moved')
    }
    const witness = openWitness(logs, { save: async () => lose(), assertHeld: lose })
    await expect(witness.addCheckpoint(encodeUtf8(first ?? ''))).rejects.toThrow(LostDirectoryError)
    isLost = false
    await answerOf(witness, first ?? '')
    const again = first?.replace('old 0', `old ${sizeOf(first)}`) ?? ''
    expect(await answerOf(witness, again)).toMatchObject({ status: 200 })
    isLost = true
    await expect(witness.addCheckpoint(encodeUtf8(again))).rejects.toThrow(LostDirectoryError)
  })

  it('lets requests take turns: of two trees that continue the same one, it cosigns one', async () => {
    const witness = openWitness(logs, { save: () => new Promise((resolve) => setImmediate(resolve)) })
    await answerOf(witness, first ?? '')
    const answers = await Promise.all([larger, larger, larger].map((body) => answerOf(witness, body ?? '')))
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409])
    expect(witness.saved).toHaveLength(2)
  })

  it('reports a tree that the log signed and that contradicts what was cosigned, once, with the signature of the log', async () => {
    const reported: unknown[] = []
    const events = { contradicted: (details: unknown) => reported.push(details) }
    const witness = openWitness(logs, { events })
    await answerOf(witness, bodyOf('a first tree with a proof'))
    for (const body of [first, larger]) await answerOf(witness, body ?? '')
    await answerOf(witness, bodyOf('a stale old size'))
    await answerOf(witness, larger?.replace('old 3', 'old 11') ?? '') // cosigned before, with a wrong proof
    expect(reported).toEqual([])
    const cosigned_root = textOf(larger ?? '').split('\n')[2]
    const noteOf = (body: string) => body.slice(body.indexOf('\n\n') + 2)
    const expected = { cosigned_size: 11, cosigned_root, note: noteOf(fork ?? '') }
    const origin = logs[0]?.split('+')[0]
    for (let time = 0; time < 3; time++) await answerOf(witness, `${fork}\u2014 somebody ${'A'.repeat(8)}\n`)
    expect(reported).toEqual([{ origin, ...expected }])
    const longer = bodyOf('a larger tree without proof')
    await answerOf(witness, longer)
    expect(reported).toEqual([
      { origin, ...expected },
      { origin, ...expected, note: noteOf(longer) },
    ])
  })
})

it('remembers what it reported in little memory, however long that was', async () => {
  const signer = signerOf(generateKeyPairSync('ed25519').privateKey)
  const log = readTreeKey(encodePublicKey(signer))
  const bodyOf = (old: number, leaf: number, more = '') => {
    const text = `${log.name}\n1\n${encodeBase64(merkleRoot([new Uint8Array(32).fill(leaf)]))}\n${more}`
    return encodeUtf8(`old ${old}\n\n${text}\n${signatureLine(log, signer.sign(encodeUtf8(text)))}`)
  }
  let reported = 0
  const events = {
    contradicted: () => {
      reported += 1
    },
  }
  const witness = openWitness([encodeNoteKey(log)], { events })
  await witness.addCheckpoint(bodyOf(0, 1))
  setFlagsFromString('--expose-gc')
  const collect: () => void = runInNewContext('gc')
  setFlagsFromString('--no-expose-gc')
  collect()
  const before = process.memoryUsage().heapUsed
  for (let at = 0; at < 100; at++) {
    const body = bodyOf(1, 2, `${at} ${'\u0101'.repeat(50_000)}\n`) // two bytes a character
    await witness.addCheckpoint(body).catch(() => undefined) // `expect` would keep the promise
  }
  collect()
  expect(reported).toBe(100)
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(3_000_000)
})

describe("a witness's state", () => {
  it.each(vectors.states)('is read and written: $name', ({ file, logs }) => {
    const state = readState(file)
    expect([...state.logs.keys()]).toEqual(logs.map(({ origin }) => origin))
    expect(writeState(state)).toBe(file)
  })

  it.each(vectors.refuse_states)('is not this file: $name', ({ file }) => {
    expect(() => readState(file)).toThrow(WitnessError)
  })
})

describe('the list of logs', () => {
  const [log = ''] = logsOf()
  function logsOf() {
    return vectors.runs[0]?.logs ?? []
  }

  it('has a key a line, the keys of one log together, and an origin that is not the name behind its key', () => {
    const other = vectors.runs[1]?.logs[0] ?? ''
    const list = readLogList(
      `# logs\n\n${log}\r\n  ${other} example.com/log\n${log} example.com/log\n${log}  a tree \n`,
      'logs',
    )
    expect([...list].map(([origin, keys]) => [origin, keys.length])).toEqual([
      [log.split('+')[0], 1],
      ['example.com/log', 2],
      ['a tree', 1],
    ])
  })

  it.each([
    ['', 'lists no log'],
    ['# nothing\n', 'lists no log'],
    [`${log}\n${log.slice(0, -1)}`, 'logs, line 2'],
    [vectors.keys[0] ?? '', 'logs, line 1'],
    [`${log} a\u0007b`, 'logs, line 1'],
  ])('is refused: %j', (text, message) => {
    expect(() => readLogList(text, 'logs')).toThrow(message)
  })
})
