/** `eaas audit verify --all`: verifies the installation's log, its newest anchor and the log of every tenant. */
import { INSTALLATION_ID } from '@eaas/protocol'
import type { Config } from '../config.js'
import { type LogVerdict, type Unverified, verifyAll } from '../jobs/verify-all.js'
import { verifyAudit } from '../operations/verify-audit.js'
import { performAsSystem } from '../runner/perform.js'
import { describeWitnessed, readKept, viewWitnessed } from './kept-file.js'
import { print, printJson, showProgress, table } from './output.js'
import { messageOf, recordOperation, withServices } from './with-services.js'

export interface VerifyAllCommand {
  /** a file with a checkpoint of the installation's log */
  checkpoint?: string
  /** keys of witnesses that must have cosigned it */
  witness?: string[]
  json: boolean
}

/** Verifies every log; returns whether all are valid. @throws if a log could not be verified to its end, and none is invalid */
export async function auditVerifyAll(config: Config, { json, ...file }: VerifyAllCommand): Promise<boolean> {
  const progress = showProgress('verified')
  const { verdicts, unverified, witnessed } = await withServices(config, async (services) => {
    const { note, witnessed } = await readKept(services, INSTALLATION_ID, file)
    const result = await verifyAll(services, {
      onProgress: (name, entries) => progress(`${name}: ${entries} entries`),
    })
    const own = result.verdicts.find(({ tenant_id }) => tenant_id === INSTALLATION_ID)
    if (note !== undefined && own?.valid) {
      const compared = await performAsSystem(services, INSTALLATION_ID, verifyAudit({ checkpoint: note }))
      const { valid, reason, broken_at } = compared
      Object.assign(own, { valid, ...(!valid && { reason, broken_at }) })
    }
    const invalid = result.verdicts.filter(({ valid }) => !valid).length
    await recordOperation(services, {
      action: 'installation.verify',
      metadata: { logs: result.verdicts.length, invalid, unverified: result.unverified.length },
    })
    return { ...result, witnessed }
  }).finally(progress.done)
  const isValid = verdicts.every(({ valid }) => valid)
  if (json) printJson({ ...view(verdicts, unverified), ...viewWitnessed(witnessed) })
  else print(...describe(verdicts, unverified), ...(isValid ? describeWitnessed(witnessed) : []))
  if (isValid && unverified.length > 0) throw new Error(`${unverified.length} logs could not be verified`)
  return isValid
}

function view(verdicts: readonly LogVerdict[], unverified: readonly Unverified[]) {
  return {
    valid: unverified.length === 0 && verdicts.every(({ valid }) => valid),
    logs: verdicts,
    unverified: unverified.map(({ tenant_id, name, error }) => ({ tenant_id, name, error: messageOf(error) })),
  }
}

function describe(verdicts: readonly LogVerdict[], unverified: readonly Unverified[]): string[] {
  const invalid = verdicts.filter(({ valid }) => !valid)
  const rows = [
    ...invalid.map(({ tenant_id, name = '-', reason = '', broken_at }) => [
      name,
      tenant_id,
      broken_at === undefined ? reason : `${reason}, entry ${broken_at}`,
    ]),
    ...unverified.map(({ tenant_id, name, error }) => [name, tenant_id, `not verified: ${messageOf(error)}`]),
  ]
  const entries = verdicts.reduce((sum, { verified_entries }) => sum + verified_entries, 0)
  return [
    rows.length === 0
      ? 'All logs are valid.'
      : `${invalid.length} logs are NOT valid, ${unverified.length} not verified.`,
    `logs        ${verdicts.length - invalid.length} of ${verdicts.length + unverified.length} valid, the installation's own among them`,
    `entries     ${entries} verified`,
    ...(rows.length === 0 ? [] : ['', ...table(['NAME', 'ID', 'FAULT'], rows)]),
  ]
}
