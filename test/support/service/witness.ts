// Runs `eaas-audit witness` as a process of its own, with a key and a state of its own.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runAuditCommand } from './command-host.js'
import { EAAS_AUDIT, type EaasOptions, type EaasProcess, startEaas } from './eaas-process.js'

export interface WitnessProcess {
  process: EaasProcess
  directory: string
  /** its public key */
  key: string
  options: EaasOptions
  /** Stops it and removes its directory. */
  remove(): Promise<void>
}

/** Creates a witness of the logs and starts it. */
export async function startWitness(
  logs: readonly string[],
  { name = 'witness.example/w1' }: { name?: string } = {},
): Promise<WitnessProcess> {
  const folder = await mkdtemp(join(tmpdir(), 'eaas-witness-'))
  const directory = join(folder, 'witness')
  const environment = { EAAS_WITNESS_DIR: directory, EAAS_WITNESS_PORT: '0' }
  const options: EaasOptions = { rootKey: null, command: [EAAS_AUDIT, 'witness'], environment }
  const { code, stdout, stderr } = await runAuditCommand(['witness', '--create', '--name', name], { environment })
  if (code !== 0) throw new Error(`eaas-audit witness --create ended with code ${code}: ${stderr}`)
  await writeFile(join(directory, 'logs'), ['# logs', ...logs].join('\n'))
  const process = await startEaas(options)
  const remove = async () => {
    await process.stop()
    await rm(folder, { recursive: true, force: true })
  }
  return { process, directory, key: stdout.trim(), options, remove }
}
