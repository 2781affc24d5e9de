// `eaas-audit witness` as a process: its key and state, what it answers over HTTP, and what a crash leaves.
import { generateKeyPairSync } from 'node:crypto'
import { chmod, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { dirname, join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { encodePublicKey } from '../../packages/audit/src/formats/checkpoint.js'
import {
  MAX_REQUEST_BYTES,
  readCosignature,
  readWitnessKey,
  writeAddCheckpoint,
} from '../../packages/audit/src/formats/cosignature.js'
import vectors from '../../packages/audit/src/formats/cosignature.vectors.json' with { type: 'json' }
import { consistencyProof } from '../../packages/audit/src/formats/merkle.js'
import { encodeNoteKey, readSignatures, splitNote } from '../../packages/audit/src/formats/signed-note.js'
import { readTreeKey, signTree } from '../../packages/audit/src/formats/tree.js'
import { signerOf } from '../../packages/audit/src/node/signing-key.js'
import { readState } from '../../packages/audit/src/witness/state-file.js'
import { runAuditCommand } from '../support/service/command-host.js'
import type { EaasProcess } from '../support/service/eaas-process.js'
import { startWitness } from '../support/service/witness.js'

const NAME = 'witness.example/w1'
let folder: string
let directory: string
let key: string
let witness: EaasProcess
let remove: (() => Promise<void>) | undefined

/** A log that grows as it is told, and can fork. */
const signingKey = signerOf(generateKeyPairSync('ed25519').privateKey)
const log = encodeNoteKey(readTreeKey(encodePublicKey(signingKey)))
const leaves = (size: number, mark = 0) =>
  Array.from({ length: size }, (_, at) => new Uint8Array(32).fill(at + 1 + mark))
const growth = (old: number, size: number, mark = 0) =>
  writeAddCheckpoint({
    old,
    proof: consistencyProof(leaves(size, mark), old),
    note: signTree(signingKey, leaves(size, mark)),
  })

const options = (environment: Record<string, string> = {}) => ({
  environment: { EAAS_WITNESS_DIR: directory, EAAS_WITNESS_PORT: '0', ...environment },
})
const post = (body: string | Uint8Array<ArrayBuffer>, path = '/add-checkpoint') =>
  fetch(`${witness.url}${path}`, { method: 'POST', body })
const state = async () => readState(await readFile(join(directory, 'state'), 'utf8'))
const cosignedSize = async () => (await state()).logs.get(log.split('+')[0] ?? '')?.size

async function answerOf(body: string) {
  const response = await post(body)
  return { status: response.status, type: response.headers.get('content-type'), text: await response.text() }
}

/** When the witness signed the note of a request, in seconds since 1970; undefined if the answer is no signature of its key. */
function cosignedAt(answer: string, body: string): number | undefined {
  const { text } = splitNote(body.slice(body.indexOf('\n\n') + 2))
  return readCosignature(readSignatures(answer), readWitnessKey(key), text)
}

beforeAll(async () => {
  const started = await startWitness([log, ...vectors.runs.flatMap(({ logs }) => logs)], { name: NAME })
  ;({ directory, key, process: witness, remove } = started)
  folder = dirname(directory)
})
afterAll(() => remove?.())

describe('a new witness', () => {
  it('has a key and a state that only its user can read, prints its public key, and is never created over another', async () => {
    expect(encodeNoteKey(readWitnessKey(key))).toBe(key)
    expect((await state()).witness).toBe(key)
    for (const name of ['witness.key', 'state']) expect((await stat(join(directory, name))).mode & 0o077).toBe(0)
    const before = await readFile(join(directory, 'witness.key'), 'utf8')
    const again = await runAuditCommand(['witness', '--create', '--name', NAME], options())
    expect(again).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('exists and is not empty') })
    expect(await readFile(join(directory, 'witness.key'), 'utf8')).toBe(before)
    expect((await readdir(folder)).filter((name) => name !== 'witness')).toEqual([])
  })

  it('prints its key and its logs when it listens, and its own key never', async () => {
    expect(witness.stdout).toContain(`Key: ${key}\n`)
    expect(witness.stdout).toContain(`\n  ${log.split('+')[0]}\n`)
    const secret = (await readFile(join(directory, 'witness.key'), 'utf8')).trim()
    for (const text of [witness.stdout, witness.stderr]) expect(text).not.toContain(secret)
  })

  it.each([
    [['witness', '--create'], 2, 'belong together'],
    [['witness', '--name', NAME], 2, 'belong together'],
    [['witness', '--create', '--name', 'a b'], 1, 'no space, plus or control character'],
    [['witness', '--create', '--name', 'a+b'], 1, 'no space, plus or control character'],
  ])('is not created by %j', async (args, code, message) => {
    const there = { EAAS_WITNESS_DIR: join(folder, 'none') }
    expect(await runAuditCommand(args, options(there))).toMatchObject({
      code,
      stderr: expect.stringContaining(message),
    })
    expect(await readdir(folder)).toEqual(['witness'])
  })

  it('may take a key from outside: one that is none can be made, but never where a witness is already', async () => {
    const none = { EAAS_WITNESS_DIR: join(folder, 'none') }
    const create = (environment: Record<string, string>) =>
      runAuditCommand(['witness', '--create', '--name', NAME], options(environment))
    const refused = [
      await create({ ...none, EAAS_WITNESS_KEY: 'AAAA' }),
      await create({ ...none, EAAS_WITNESS_KEY_FILE: join(folder, 'no.key') }),
    ]
    for (const { code, stderr } of refused) {
      expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining('openssl rand -base64 32') })
    }
    const { stderr } = await create({ EAAS_WITNESS_KEY: 'AAAA' })
    expect(stderr).toContain('exists and is not empty')
    expect(stderr).not.toContain('openssl')
    expect(await readdir(folder)).toEqual(['witness'])
  })

  async function expectRefused(path: string, code: string) {
    const there = resolve(folder, path)
    const environment = { EAAS_WITNESS_DIR: there }
    expect(await runAuditCommand(['witness', '--create', '--name', NAME], options(environment))).toMatchObject({
      code: 1,
      stdout: '',
      stderr: `eaas-audit: ${there} cannot be created (${code}). Name another directory in EAAS_WITNESS_DIR, or create its parent for the user that the witness runs as.\n`,
    })
  }

  it('is refused at once below a file', () => expectRefused('witness/logs/below', 'ENOTDIR'))

  // No other system has it.
  it.skipIf(process.platform !== 'linux')('is refused at once below /proc', () =>
    expectRefused('/proc/none/witness', 'ENOENT'),
  )

  it('is no folder without its state, in which nothing is then written', async () => {
    const there = join(folder, 'none')
    await mkdir(there)
    const { code, stderr } = await runAuditCommand(['witness'], options({ EAAS_WITNESS_DIR: there }))
    expect({ code, stderr }).toMatchObject({ code: 1, stderr: expect.stringContaining('eaas-audit witness --create') })
    expect(await readdir(there)).toEqual([])
    await rm(there, { recursive: true })
  })

  it('may have a key from the environment, which is not written', async () => {
    const other = join(folder, 'other')
    const environment = { EAAS_WITNESS_DIR: other, EAAS_WITNESS_KEY: Buffer.alloc(32, 5).toString('base64') }
    expect((await runAuditCommand(['witness', '--create', '--name', NAME], options(environment))).code).toBe(0)
    expect((await readdir(other)).sort()).toEqual(['.gitignore', 'logs', 'state'])
    await writeFile(join(other, 'logs'), log)
    const wrong = { ...environment, EAAS_WITNESS_KEY: Buffer.alloc(32, 6).toString('base64') }
    expect(await runAuditCommand(['witness'], options(wrong))).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('does not belong to the state'),
    })
    await rm(other, { recursive: true })
  })
})

describe('a witness that listens', () => {
  it.each(vectors.runs)('answers the requests of $name as published', async ({ requests }) => {
    for (const { name, status, body, ...more } of requests) {
      const answer = await answerOf(body)
      expect({ name, status: answer.status }).toEqual({ name, status })
      if (status === 409) {
        const size = 'size' in more ? more.size : undefined
        expect([answer.type, answer.text]).toEqual(['text/x.tlog.size', `${size}\n`])
      }
      if (status !== 200) continue
      expect(Math.abs((cosignedAt(answer.text, body) ?? 0) - Date.now() / 1_000)).toBeLessThan(60)
    }
  })

  it('cosigns one of many that continue the same tree at once, and the others get its size', async () => {
    expect((await post(growth(0, 3))).status).toBe(200)
    const sizes = Array.from({ length: 24 }, (_, at) => 4 + at)
    const answers = await Promise.all(sizes.map((size) => answerOf(growth(3, size))))
    const cosigned = sizes.filter((_, at) => answers[at]?.status === 200)
    expect(cosigned).toHaveLength(1)
    expect(new Set(answers.filter(({ status }) => status === 409).map(({ text }) => text))).toEqual(
      new Set([`${cosigned[0]}\n`]),
    )
    expect(await cosignedSize()).toBe(cosigned[0])
  })

  it('knows after kill -9, whenever that was, all that it answered, and refuses a fork of it', async () => {
    for (let round = 0; round < 5; round++) {
      const from = (await cosignedSize()) ?? 0
      const answered: number[] = []
      const calls = Array.from({ length: 12 }, async (_, at) => {
        const size = from + 1 + at
        const before = at === 0 ? from : size - 1
        const { status } = await post(growth(before, size))
        if (status === 200) answered.push(size)
      })
      await Promise.race(calls)
      await witness.kill9()
      await Promise.allSettled(calls)
      const kept = (await cosignedSize()) ?? 0
      expect(kept).toBeGreaterThanOrEqual(Math.max(from, ...answered))
      await witness.start()
      expect((await answerOf(growth(0, 1))).text).toBe(`${kept}\n`)
      expect((await post(growth(kept, kept, 100))).status).toBe(409)
      expect((await post(growth(kept, kept + 1, 100))).status).toBe(422)
      expect((await post(growth(kept, kept))).status).toBe(200)
    }
  })

  it('has no second process on its directory', async () => {
    const second = await runAuditCommand(['witness'], options())
    expect(second).toMatchObject({ code: 1, stderr: expect.stringContaining(`in use by process ${witness.pid} `) })
  })

  it('answers hostile requests by their kind, and others meanwhile', async () => {
    const size = await cosignedSize()
    const long = 'a'.repeat(MAX_REQUEST_BYTES + 1)
    const status = async (answer: Promise<Response>) => (await answer.catch(() => ({ status: 413 }))).status
    expect(await status(post(long))).toBe(413)
    expect(await status(post('old 0\n'.repeat(20_000)))).toBe(400)
    expect(await status(post(Uint8Array.of(0xff, 0xfe)))).toBe(400)
    expect(await status(post(''))).toBe(400)
    expect(await status(post(growth(0, 1), '/add-checkpoint?a'))).toBe(404)
    expect(await status(post(growth(0, 1), '//add-checkpoint'))).toBe(404)
    expect(await status(fetch(`${witness.url}/add-checkpoint`))).toBe(405)
    expect(await status(fetch(`${witness.url}/`))).toBe(404)
    expect(await cosignedSize()).toBe(size)
    // What the kernel takes before the witness closes the connection; its time limit alone would let in far more.
    const head = 'POST /add-checkpoint HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nfffffff\r\n'
    expect(await sendWithoutEnd(head)).toBeLessThan(256 * MAX_REQUEST_BYTES)
    expect((await post(growth(size ?? 0, size ?? 0))).status).toBe(200)
  })
})

/** Sends the beginning of a request and then body without end; resolves to the bytes sent when the witness cuts it off. */
function sendWithoutEnd(head: string): Promise<number> {
  const { hostname, port } = new URL(witness.url)
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname, () => {
      socket.write(head)
      const more = () => {
        while (!socket.destroyed && socket.write('a'.repeat(65_536)));
      }
      socket.on('drain', more)
      more()
    })
    socket.on('error', () => undefined) // a reset, if the 413 does not arrive before it
    socket.resume().on('close', () => resolve(socket.bytesWritten))
  })
}

describe('a witness that starts again', () => {
  describe('in a directory that somebody spoiled', () => {
    beforeAll(async () => {
      expect((await witness.stop()).code).toBe(0)
    })
    afterAll(() => witness.start())

    it.each([
      ['without its state', async () => rm(join(directory, 'state')), 'There is no state of a witness'],
      ['with half a state', async () => writeFile(join(directory, 'state'), '{"format":'), 'damaged'],
      // A new key would be another witness's: nobody trusts it, and the state does not accept it.
      [
        'without its key',
        async () => rm(join(directory, 'witness.key')),
        /cannot be read: .*ENOENT.* restore it(?!.*openssl)/,
      ],
      [
        'with half its key',
        async () => writeFile(join(directory, 'witness.key'), 'AAAA\n'),
        /base64 of 32 bytes\. .* restore it(?!.*openssl)/,
      ],
      [
        'with a key that is a folder',
        async () => {
          await rm(join(directory, 'witness.key'))
          await mkdir(join(directory, 'witness.key'))
        },
        /cannot be read: .*EISDIR.* It must be a file that the user/,
      ],
      [
        'with another key',
        async () => writeFile(join(directory, 'witness.key'), `${'A'.repeat(43)}=`),
        /witness\.key does not belong to the state .* restore it/,
      ],
      ['without logs', async () => writeFile(join(directory, 'logs'), '# none'), 'lists no log'],
      ['without a list of logs', async () => rm(join(directory, 'logs')), /The list of logs cannot be read: .*ENOENT/],
    ])('refuses %s', async (_, spoil, message) => {
      const names = ['state', 'witness.key', 'logs']
      const kept = await Promise.all(names.map((name) => readFile(join(directory, name))))
      try {
        await spoil()
        const { code, stderr } = await runAuditCommand(['witness'], options())
        expect(code).toBe(1)
        expect(stderr).toMatch(message)
      } finally {
        await rm(join(directory, 'witness.key'), { recursive: true, force: true })
        for (const [at, name] of names.entries())
          await writeFile(join(directory, name), kept[at] ?? '', { mode: 0o600 })
      }
    })
  })

  it('warns of a key that everybody can read', async () => {
    const path = join(directory, 'witness.key')
    expect(witness.stderr).not.toContain('chmod 600')
    await witness.stop()
    await chmod(path, 0o644)
    await witness.start()
    await expect
      .poll(() => witness.stderr)
      .toContain('everybody on this machine can read or change the key of the witness')
    await chmod(path, 0o600)
  })

  it('forgets a log only when it is told to while it does not run, and then cosigns it from its beginning', async () => {
    const origin = log.split('+')[0] ?? ''
    const forget = () => runAuditCommand(['witness', '--forget', origin], options())
    expect(await forget()).toMatchObject({ code: 1, stderr: expect.stringContaining('in use by process') })
    const size = await cosignedSize()
    const others = [...(await state()).logs.keys()].filter((other) => other !== origin)
    await witness.stop()
    expect(await forget()).toMatchObject({
      code: 0,
      stdout: `Forgot ${origin}, which this witness had cosigned through entry ${size}.\n`,
    })
    expect(await forget()).toMatchObject({ code: 1, stderr: expect.stringContaining('cosigned nothing of') })
    expect([...(await state()).logs.keys()]).toEqual(others)
    await witness.start()
    expect((await post(growth(0, 2, 100))).status).toBe(200)
  })

  it('ends with exit code 1 when its directory was moved, and does not even sign again what it signed', async () => {
    const size = (await cosignedSize()) ?? 0
    const body = growth(size, size, 100)
    expect((await post(body)).status).toBe(200)
    const status = () =>
      post(body).then(
        (answer) => answer.status,
        () => 'gone',
      )
    const moved = `${directory}-moved`
    await rename(directory, moved)
    try {
      expect([500, 'gone']).toContain(await status())
      await expect.poll(status).toBe('gone')
      expect(await witness.stop()).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(/"level":60.*no longer this/),
      })
    } finally {
      await witness.kill9()
      await rename(moved, directory)
      await witness.start()
    }
  })

  it('signs with the key that it printed first', async () => {
    expect(witness.stdout).toContain(`Key: ${key}\n`)
    const size = (await cosignedSize()) ?? 0
    const body = growth(size, size + 1, 100)
    const { status, text } = await answerOf(body)
    expect(status).toBe(200)
    expect(cosignedAt(text, body)).toBeGreaterThan(0)
  })
})
