/** What the service reports about itself, and whether the log verifies. */
import { visible } from '@eaas/protocol'
import type { Health, Verification } from '@eaas/sdk'
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { client, mayTry, session } from '../session.js'
import { attempt, Problem } from '../ui/outcome.js'
import { Button, describeKeys, Facts, Time } from '../ui/values.js'

export function HealthPage() {
  const health = useSignal<Health | undefined>(undefined)
  const verified = useSignal<Verification | undefined>(undefined)
  const error = useSignal<unknown>(undefined)
  const isVerifying = useSignal(false)
  useEffect(() => {
    void attempt(error, async () => {
      health.value = await client().health()
    })
  }, [])
  const verify = async () => {
    isVerifying.value = true
    await attempt(error, async () => {
      verified.value = await client().audit.verify()
    })
    isVerifying.value = false
  }
  const { tenant, rights } = session.value ?? {}
  const own = rights?.own
  return (
    <>
      <div class="bar">
        <h1>Health</h1>
        {health.value && (
          <span class={health.value.status === 'healthy' ? 'good' : 'alarm'}>{health.value.status}</span>
        )}
      </div>
      <Problem error={error.value} />
      {health.value && <Facts of={{ ...health.value }} />}
      {mayTry('audit:read') && (
        <>
          <h2>The log</h2>
          <p>
            <Button disabled={isVerifying.value} onClick={verify}>
              {isVerifying.value ? 'Verifying …' : 'Verify now'}
            </Button>
          </p>
          {verified.value && <Verified {...verified.value} />}
          <p class="soft">
            The server verifies its own log here. If you do not trust the server, take an export to the page Verify.
          </p>
        </>
      )}
      <h2>Signed in</h2>
      <Facts
        of={{
          Tenant: tenant && visible(tenant.name),
          'Server mode': tenant && (tenant.envelope_only ? 'closed' : 'open'),
          'API key': own ? visible(own.name) : 'not known: it may not list API keys',
          'It may': own?.permissions.join(', ') ?? 'what the pages above show',
          'On keys': own?.keys && describeKeys(own.keys),
          Expires: own?.expires_at && <Time at={own.expires_at} />,
        }}
      />
    </>
  )
}

function Verified({ valid, total_entries, broken_at, reason, head, purged_through, checkpoint }: Verification) {
  return (
    <Facts
      of={{
        Verdict: valid ? 'valid' : `NOT valid at entry ${broken_at ?? 'unknown'}: ${reason ?? ''}`,
        Entries: total_entries.toLocaleString('en'),
        Newest: head?.created_at && (
          <>
            {head.id}, <Time at={head.created_at} />
          </>
        ),
        'Purged through': purged_through > 0 ? purged_through : undefined,
        Checkpoint: checkpoint
          ? `entry ${checkpoint.id}, ${checkpoint.compared ? 'compared with the log' : 'not compared'}`
          : 'none was compared',
      }}
      tones={{ Verdict: valid ? 'good' : 'alarm', Checkpoint: checkpoint?.compared ? '' : 'due' }}
    />
  )
}
