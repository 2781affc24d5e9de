/** `eaas audit verify --all`: verifies the installation's log, its newest anchor and the log of every tenant. */
import { describeStatement, encodePublicKey } from '@eaas/audit'
import { describeWitnessed, viewWitnessed } from '@eaas/audit/command'
import { counted, INSTALLATION_ID } from '@eaas/protocol'
import { readKeptCheckpoint } from '../../core/api/audit.js'
import type { Config } from '../../core/config.js'
import type { Services } from '../../core/runner/operation.js'
import { Refusal } from '../../core/runner/refusal.js'
import { listAcceptanceIds } from '../../guard/store/alarms.js'
import { type LogVerdict, type Unverified, verifyAll } from '../jobs/verify-all.js'
import { readKept, viewKept } from './kept-file.js'
import { print, printJson, showProgress, table } from './output.js'
import { messageOf, recordOperation, withServices } from './with-services.js'

interface VerifyAllCommand {
  checkpoint?: string // a file with a checkpoint of the installation's log
  witness?: string[] // keys of witnesses that must have cosigned it
  json: boolean
}

/** Returns whether all logs are valid. @throws Refusal if none is invalid, but one was not verified or covered */
export async function auditVerifyAll(config: Config, { json, ...file }: VerifyAllCommand): Promise<boolean> {
  const progress = showProgress('verified')
  const { verdicts, unverified, witnessed, coverage, public_key } = await withServices(config, async (services) => {
    const kept = await readKept(services, INSTALLATION_ID, file)
    const { note, signers = services.signingKey.publicKeys, witnessed } = kept
    const checkpoint = note === undefined ? undefined : readKeptCheckpoint(note, INSTALLATION_ID, signers)
    const result = await verifyAll(services, {
      checkpoint,
      onProgress: (name, entries) => progress(`${name}: ${counted(entries, 'entry', 'entries')}`),
    })
    const own = result.verdicts.find(({ tenant_id }) => tenant_id === INSTALLATION_ID)
    let coverage: Coverage | undefined
    if (checkpoint && own?.valid) coverage = await findCoverage(services, checkpoint.last_id)
    const invalid = result.verdicts.filter(({ valid }) => !valid).length
    const metadata = { logs: result.verdicts.length, invalid, unverified: result.unverified.length }
    await recordOperation(services, { action: 'installation.verify', metadata })
    const statement = viewKept(note)
    const covered = coverage && statement && { ...statement, ...coverage }
    return { ...result, witnessed, coverage: covered, public_key: encodePublicKey(services.signingKey) }
  }).finally(progress.done)
  const isValid = verdicts.every(({ valid }) => valid)
  const kept = { ...viewWitnessed(witnessed), ...(coverage && { checkpoint: coverage, public_key }) }
  if (json) printJson({ ...viewAll(verdicts, unverified), ...kept })
  else {
    const compared = coverage && [`checkpoint  agrees: ${describeStatement(coverage)}`, `by key      ${public_key}`]
    const agrees = isValid ? [...(compared ?? []), ...describeWitnessed(witnessed)] : []
    print(...describe(verdicts, unverified), ...agrees)
  }
  if (isValid && unverified.length > 0) {
    throw new Refusal('E_UNAVAILABLE', `${counted(unverified.length, 'log')} could not be verified`)
  }
  if (isValid && coverage?.covers_tenants === false) throw new Refusal('E_STATE', notCovering(coverage))
  return isValid
}

interface Coverage {
  id: number // the entry of the installation's log that the checkpoint is of
  covers_tenants: boolean // whether each anchor since then covered what the one before it covered
  /** the last entry by which an operator accepted that this log or the anchored heads changed */
  anchored_afresh_by?: number
}

// After such an entry the anchors begin with what the database has (anchor.md 4): a tenant that had gone back, too.
async function findCoverage({ sql }: Services, id: number): Promise<Coverage> {
  const [accepted = 0] = await listAcceptanceIds(sql, INSTALLATION_ID)
  if (accepted <= id) return { id, covers_tenants: true }
  return { id, covers_tenants: false, anchored_afresh_by: accepted }
}

function notCovering({ id, anchored_afresh_by }: Coverage): string {
  return (
    `the logs agree with each other, but the checkpoint of entry ${id} of the installation's log covers no tenant: entry ${anchored_afresh_by} ` +
    'accepted a rollback of that log, and the anchors began afresh. Give a checkpoint from after it, and compare each tenant with a checkpoint of its own'
  )
}

function viewAll(verdicts: readonly LogVerdict[], unverified: readonly Unverified[]) {
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
      : `${counted(invalid.length, 'log is', 'logs are')} NOT valid, ${unverified.length} not verified.`,
    `logs        ${verdicts.length - invalid.length} of ${verdicts.length + unverified.length} valid, counting the installation's own log`,
    `entries     ${entries} verified`,
    ...(rows.length === 0 ? [] : ['', ...table(['NAME', 'ID', 'FAULT'], rows)]),
  ]
}
