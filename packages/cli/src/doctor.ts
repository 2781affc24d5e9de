/** `doctor`: checks step by step whether this machine can encrypt and decrypt with the service. */
import { type Client, isEaasError } from '@eaas/sdk'
import type { Command } from 'commander'
import { addServiceOptions, type ServiceOptions } from './arguments.js'
import { baseUrlOf, findKeyId, tellService, withClient } from './connection.js'
import { CommandError, type Io, inCommandWords, print } from './io.js'

type Finding = { check: string; ok: boolean; detail: string }

const PROBE = 'eaas-cli doctor'

interface DoctorOptions extends ServiceOptions {
  key?: string
  json?: boolean
}

export function addDoctor(program: Command, io: Io): void {
  const command = program
    .command('doctor')
    .summary('check address, API key, permissions and a round trip')
    .usage('[--key <name>] [--json]')
    .description(
      "Checks that the service answers, that it knows the API key, and, with --key, that a value can be encrypted and decrypted under that key. Exit code 1 if a check fails. The round trip writes two entries into the tenant's audit log.",
    )
    .option('--key <name>', 'name or id of the key of the round trip')
    .option('--json', 'print JSON')
  addServiceOptions(command).action((options: DoctorOptions) => doctor(io, options))
}

async function doctor(io: Io, given: DoctorOptions): Promise<void> {
  const findings = await withClient(io, given, {}, (eaas) => examine(io, eaas, given.key))
  if (given.json) await print(io, JSON.stringify({ ok: findings.every(({ ok }) => ok), findings }))
  else await print(io, ...findings.map(({ check, ok, detail }) => `${ok ? 'ok  ' : 'FAIL'}  ${check}: ${detail}`))
  if (findings[0]?.ok === false) tellService(io)
  if (!findings.every(({ ok }) => ok)) throw new CommandError('a check failed')
}

async function examine(io: Io, eaas: Client, key: string | undefined): Promise<Finding[]> {
  const findings: Finding[] = []
  const { signal } = io
  const check = async (name: string, run: () => Promise<string>): Promise<boolean> => {
    try {
      findings.push({ check: name, ok: true, detail: await run() })
      return true
    } catch (error) {
      if (signal.aborted || !(isEaasError(error) || error instanceof CommandError)) throw error
      const { message, hint } = isEaasError(error) ? inCommandWords(error) : { message: error.message, hint: '' }
      findings.push({ check: name, ok: false, detail: `${message}. ${hint}`.trim() })
      return false
    }
  }
  const answers = await check('service', async () => {
    const { status } = await eaas.health({ signal })
    return `${new URL(baseUrlOf(io)).origin} is ${status}`
  })
  if (!answers) return findings
  await check('API key', async () => {
    try {
      const { name } = await eaas.tenant({ signal })
      return `it belongs to the tenant ${name}`
    } catch (error) {
      if (!isEaasError(error) || error.code !== 'E_API' || error.problem !== 'E_MISSING_PERMISSION') throw error
      return `the service knows it; its tenant is not shown: ${error.detail}` // the least rights lack keys:read
    }
  })
  if (key === undefined) return findings
  await check('round trip', async () => {
    const keyId = await findKeyId(eaas, key, io)
    const sealed = await eaas.encrypt(PROBE, { keyId, dek: 'call', signal })
    const opened = await eaas.decryptText(sealed, { signal })
    if (opened !== PROBE) throw new CommandError('what was decrypted is not what was encrypted')
    return `encrypted and decrypted under version ${sealed.key_version} of the key ${keyId}`
  })
  return findings
}
