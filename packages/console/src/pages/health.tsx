/** What the service says about itself, and whether the log verifies. */
import { visible } from '@eaas/protocol'
import type { Health, Verification } from '@eaas/sdk'
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { client, mayTry, session } from '../session.js'
import { attempt, Problem } from '../ui/problem.js'
import { describeKeys, Time } from '../ui/values.js'

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
  return (
    <>
      <div class="bar">
        <h1>Health</h1>
        {health.value && (
          <span class={health.value.status === 'healthy' ? 'good' : 'alarm'}>{health.value.status}</span>
        )}
      </div>
      <Problem error={error.value} />
      {health.value && (
        <dl class="facts">
          {Object.entries(health.value).map(([name, value]) => [
            <dt key={name}>{name}</dt>,
            <dd key={`${name}:`}>{value}</dd>,
          ])}
        </dl>
      )}
      {mayTry('audit:read') && (
        <>
          <h2>The log</h2>
          <p>
            <button type="button" disabled={isVerifying.value} onClick={verify}>
              {isVerifying.value ? 'Verifying …' : 'Verify now'}
            </button>
          </p>
          {verified.value && <Verified {...verified.value} />}
          <p class="soft">
            The server verifies its own log here. If you do not trust the server, take an export to the page Verify.
          </p>
        </>
      )}
      <h2>Signed in</h2>
      <dl class="facts">
        {tenant && [
          <dt key="t">Tenant</dt>,
          <dd key="n">{visible(tenant.name)}</dd>,
          <dt key="m">Server mode</dt>,
          <dd key="o">{tenant.envelope_only ? 'closed' : 'open'}</dd>,
        ]}
        <dt>API key</dt>
        <dd>{rights?.own ? visible(rights.own.name) : 'not known: it may not list API keys'}</dd>
        <dt>It may</dt>
        <dd>{rights?.own?.permissions.join(', ') ?? 'what the pages above show'}</dd>
        {rights?.own?.keys && [<dt key="k">On keys</dt>, <dd key="l">{describeKeys(rights.own.keys)}</dd>]}
        {rights?.own?.expires_at && [
          <dt key="e">Expires</dt>,
          <dd key="a">
            <Time at={rights.own.expires_at} />
          </dd>,
        ]}
      </dl>
    </>
  )
}

function Verified({ valid, total_entries, broken_at, reason, head, purged_through, checkpoint }: Verification) {
  return (
    <dl class="facts">
      <dt>Verdict</dt>
      <dd class={valid ? 'good' : 'alarm'}>
        {valid ? 'valid' : `NOT valid at entry ${broken_at ?? 'unknown'}: ${reason ?? ''}`}
      </dd>
      <dt>Entries</dt>
      <dd>{total_entries.toLocaleString('en')}</dd>
      {head?.created_at && [
        <dt key="n">Newest</dt>,
        <dd key="h">
          {head.id}, <Time at={head.created_at} />
        </dd>,
      ]}
      {purged_through > 0 && [<dt key="p">Purged through</dt>, <dd key="t">{purged_through}</dd>]}
      <dt>Checkpoint</dt>
      <dd class={checkpoint?.compared ? '' : 'due'}>
        {checkpoint
          ? `entry ${checkpoint.id}, ${checkpoint.compared ? 'compared with the log' : 'not compared'}`
          : 'none was compared'}
      </dd>
    </dl>
  )
}
