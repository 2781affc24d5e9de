// A root key in an HSM: SoftHSM2, by `eaas root-key pkcs11`, as the page says.
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { findOrInstallSoftHsm } from '../../support/custody/find-softhsm.js'
import { type ProviderUnderTest, testProvider } from '../../support/custody/provider-suite.js'
import { guardedDir } from '../../support/run/guarded-dir.js'
import { EAAS } from '../../support/service/eaas-process.js'

const module = findOrInstallSoftHsm()
const PIN = '314159'

/** A token with a key, and the command line of its program. */
function makeToken() {
  const { path: folder, remove } = guardedDir('eaas-hsm')
  const file = (name: string) => join(folder, name)
  mkdirSync(file('tokens'))
  writeFileSync(file('softhsm2.conf'), `directories.tokendir = ${file('tokens')}\n`)
  writeFileSync(file('pin'), `${PIN}\n`, { mode: 0o600 })
  const environment = { SOFTHSM2_CONF: file('softhsm2.conf') }
  const env = { ...process.env, ...environment }
  // The module finds its tokens by this variable, which programs inherit from the server.
  process.env.SOFTHSM2_CONF = environment.SOFTHSM2_CONF
  execFileSync('softhsm2-util', ['--init-token', '--free', '--label', 'eaas', '--pin', PIN, '--so-pin', PIN], {
    env,
    stdio: 'ignore',
  })
  const lineOf = (id: string) => {
    const options = ['--module', module ?? '', '--token', 'eaas', '--id', id, '--pin-file', file('pin')]
    return [process.execPath, EAAS, 'root-key', 'pkcs11', ...options]
  }
  const call = (what: string, input?: Uint8Array, id = '01') => {
    const [program = '', ...args] = [...lineOf(id), what]
    return spawnSync(program, args, { env, input, encoding: 'buffer' })
  }
  /** Makes a key as another program would, whatever keys there are. */
  const makeBeside = (id: string) => {
    const login = ['--module', module ?? '', '--token-label', 'eaas', '--login', '--pin', PIN]
    const key = ['--keygen', '--key-type', 'GENERIC:32', '--usage-sign', '--sensitive', '--id', id]
    execFileSync('pkcs11-tool', [...login, ...key], { env, stdio: 'ignore' })
  }
  return { file, line: lineOf('01'), call, makeBeside, remove }
}

describe.skipIf(module === undefined)('a root key in an HSM', () => {
  testProvider(async (): Promise<ProviderUnderTest> => {
    const { file, line, call, remove } = makeToken()
    expect(call('generate').status).toBe(0)
    return {
      health: 'exec',
      environment: { EAAS_ROOT_KEY_EXEC: JSON.stringify(line) },
      takeAway: async () => renameSync(file('tokens'), file('away')),
      bringBack: async () => renameSync(file('away'), file('tokens')),
      remove: async () => remove(),
    }
  })

  it('is made once, under a PIN that no message shows', async () => {
    const { file, call, remove } = makeToken()
    const early = call('wrap', Buffer.alloc(36))
    expect([early.status, early.stdout.length]).toEqual([1, 0])
    const made = call('generate')
    expect([made.status, made.stdout.toString()]).toEqual([0, 'The token eaas has a new root key of the id 01.\n'])
    const wrapped = call('wrap', Buffer.alloc(36, 5))
    expect(call('unwrap', wrapped.stdout).stdout).toEqual(Buffer.alloc(36, 5))
    const again = call('generate')
    expect([again.status, again.stderr.toString()]).toEqual([
      1,
      expect.stringContaining('has a key of the id 01 already'),
    ])
    expect(call('unwrap', wrapped.stdout).stdout).toEqual(Buffer.alloc(36, 5))
    writeFileSync(file('pin'), '271828')
    const locked = call('unwrap', wrapped.stdout)
    expect([locked.status, locked.stdout.length]).toEqual([6, 0])
    expect(locked.stderr.toString()).toContain('CKR_PIN_INCORRECT')
    for (const { stderr } of [early, made, wrapped, again, locked])
      expect(stderr.toString()).not.toMatch(/314159|271828/)
    await remove()
  })

  it('has an id of its own, however that is written', async () => {
    const { call, file, remove } = makeToken()
    expect(call('generate', undefined, '0B').status).toBe(0)
    for (const id of ['0b', '0B']) expect(call('generate', undefined, id).stderr.toString()).toContain('id 0b already')
    for (const id of ['b', 'B', '1', '0x01', '']) {
      const refused = call('generate', undefined, id)
      expect([refused.status, refused.stderr.toString()]).toEqual([2, expect.stringContaining('pairs of hexadecimal')])
    }
    chmodSync(file('pin'), 0o644)
    const wrapped = call('wrap', Buffer.alloc(36, 5), '0B')
    expect(wrapped.stderr.toString()).toBe(
      `eaas: everybody on this machine can read or change ${file('pin')}: chmod 600\n`,
    )
    expect(call('unwrap', wrapped.stdout, '0b').stdout).toEqual(Buffer.alloc(36, 5))
    await remove()
  })

  it('wraps nothing while another key has its id', async () => {
    const { call, makeBeside, remove } = makeToken()
    expect(call('generate').status).toBe(0)
    const wrapped = call('wrap', Buffer.alloc(36, 5))
    makeBeside('01')
    const refused = call('wrap', Buffer.alloc(36, 5))
    expect([refused.status, refused.stdout.length, refused.stderr.toString()]).toEqual([
      1,
      0,
      expect.stringContaining('has 2 keys of the id 01'),
    ])
    const foreign = call('unwrap', Buffer.concat([wrapped.stdout.subarray(0, -1), Buffer.of(0)]))
    expect(foreign.stderr.toString()).toContain('has 2 keys of the id 01')
    await remove()
  })
})
