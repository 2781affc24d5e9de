/** For operators: the alarms, each with advice, and the ages of backups and of what guards the logs. */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { type Alarm, listAlarms, readStatus, type Status } from '../operator.js'
import { attempt, Problem } from '../ui/outcome.js'
import { Button, Facts, Id, Time } from '../ui/values.js'

const GUARDS = {
  anchor: 'Newest anchor',
  checkpoint: 'Newest checkpoint',
  verification: 'Last verification',
  purge: 'Last purge',
} as const

export function InstallationPage() {
  const error = useSignal<unknown>(undefined)
  const status = useSignal<Status | undefined>(undefined)
  const alarms = useSignal<readonly Alarm[] | undefined>(undefined)
  const load = () =>
    attempt(error, async () => {
      alarms.value = undefined
      status.value = await readStatus()
      alarms.value = await listAlarms()
    })
  useEffect(() => void load(), [])
  return (
    <>
      <div class="bar">
        <h1>Installation</h1>
        {status.value && (
          <span class={status.value.health.status === 'healthy' ? 'good' : 'alarm'}>{status.value.health.status}</span>
        )}
        <span class="tools">
          <Button onClick={load}>Reload</Button>
        </span>
      </div>
      <Problem error={error.value} />
      {alarms.value?.map((alarm) => (
        <AlarmView key={alarm.tenant_id} {...alarm} />
      ))}
      {status.value && <Guards {...status.value} isQuiet={alarms.value?.length === 0} />}
    </>
  )
}

function AlarmView({ tenant_id, reason, refused, commands, page }: Alarm) {
  return (
    <section class="problem" role="alert">
      <strong>{reason}</strong>
      <p>
        {tenant_id === null ? "The installation's own log" : <Id id={tenant_id} label="tenant's id" />}. {refused}
      </p>
      <p>Run next, on the server:</p>
      <pre>{commands.join('\n')}</pre>
      <p class="soft">The page “{page}” of the documentation explains them.</p>
    </section>
  )
}

function Guards({ version, health, invalid_logs, ages_in_seconds, isQuiet }: Status & { isQuiet: boolean }) {
  const { witnesses, backup, ...ages } = ages_in_seconds
  const guards = Object.keys(GUARDS) as (keyof typeof GUARDS)[]
  const ageOf = (name: keyof typeof GUARDS) => (name === 'verification' && invalid_logs === null ? null : ages[name])
  return (
    <>
      {isQuiet && <p class="good">No log has an alarm.</p>}
      <Facts of={{ Version: version, ...health }} />
      <h2>What guards the logs</h2>
      <p class="soft">As this server knows it. What it has not done yet counts from its start.</p>
      <Facts
        of={{
          'Logs not valid': invalid_logs ?? <span class="soft">not verified since this server started</span>,
          ...Object.fromEntries(guards.map((name) => [GUARDS[name], <Age key={name} seconds={ageOf(name)} />])),
          ...Object.fromEntries(
            witnesses.map(({ name, cosignature, contradicted }) => [
              `Witness ${name}`,
              contradicted ? 'contradicts the log' : <Age key={name} seconds={cosignature} />,
            ]),
          ),
          Witnesses: witnesses.length === 0 ? 'none' : undefined,
        }}
        tones={{
          'Logs not valid': invalid_logs ? 'alarm' : '',
          ...Object.fromEntries(
            witnesses.map(({ name, contradicted }) => [`Witness ${name}`, contradicted ? 'alarm' : '']),
          ),
        }}
      />
      <h2>Backups</h2>
      <Facts
        of={{ Newest: backup === null ? 'none is noted' : <Age seconds={backup} /> }}
        tones={{ Newest: backup === null ? 'due' : '' }}
      />
    </>
  )
}

function Age({ seconds }: { seconds: number | null }) {
  if (seconds === null) return <span class="soft">not done by this server</span>
  return <Time at={new Date(Date.now() - seconds * 1_000).toISOString()} />
}
