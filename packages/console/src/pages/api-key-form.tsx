/** The form for an API key's rights, to create or to change one. */
import { PERMISSIONS } from '@eaas/protocol'
import type { ApiKeyRecord, NewApiKeyOptions } from '@eaas/sdk'
import { useSignal } from '@preact/signals'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { readKeys, readLines, writeKeys } from '../listed-keys.js'
import { session } from '../session.js'
import { readTime } from '../time.js'
import { findChanges } from '../ui/dialog.js'
import { attempt, Problem } from '../ui/outcome.js'
import { Button, checkInto } from '../ui/values.js'

const MEANINGS: Readonly<Record<(typeof PERMISSIONS)[number], string>> = {
  encrypt: 'wrap and hash, and encrypt on the server',
  decrypt: 'unwrap, and decrypt on the server',
  wrap: 'seal new data',
  unwrap: 'open data, and get the secrets of its indexes',
  hash: 'make blind indexes on the server',
  'keys:read': 'list keys',
  'keys:create': 'make keys',
  'keys:rotate': 'rotate keys, and say when',
  'keys:disable': 'disable and enable keys',
  'keys:destroy': 'destroy keys and versions',
  'keys:export': 'take keys out of the server',
  'audit:read': 'read and verify the log',
  'audit:on_behalf_of': 'name end users in calls',
  'api_keys:read': 'list API keys',
  'api_keys:manage': 'make, change and revoke API keys',
}

interface ApiKeyFormProps {
  title: string
  act: string
  apiKey?: ApiKeyRecord
  /** gets the fields of the form, and those that the user changed */
  onAct(fields: NewApiKeyOptions, changes: Partial<NewApiKeyOptions>): Promise<unknown>
  onClose(): void
}

export function ApiKeyForm({ title, act, onAct, onClose, ...props }: ApiKeyFormProps) {
  // As it was when the form was shown: a list that is read again would change fields that the user did not touch.
  const { current: apiKey } = useRef(props.apiKey)
  const form = useRef<HTMLFormElement>(null)
  const shown = useRef<Partial<NewApiKeyOptions>>({})
  const error = useSignal<unknown>(undefined)
  const isBusy = useSignal(false)
  useLayoutEffect(() => {
    form.current?.querySelector<HTMLInputElement>('[name=name]')?.focus()
    if (form.current) shown.current = readFields(new FormData(form.current))
  }, [])
  const held = session.value?.rights.own?.permissions ?? PERMISSIONS
  // A permission that the signed-in API key lacks is offered only if this one already holds it.
  const offered = PERMISSIONS.filter((name) => held.includes(name) || apiKey?.permissions.includes(name))
  const { budgets, keys: limited, allowed_ips, expires_at } = apiKey ?? {}
  const until = expires_at?.slice(0, 19).replace('T', ' ') ?? ''
  const isLimited = useSignal(limited !== undefined)
  const submit = async (event: Event) => {
    event.preventDefault()
    isBusy.value = true
    await attempt(error, async () => {
      const fields = readFields(new FormData(event.currentTarget as HTMLFormElement))
      await onAct(fields, findChanges(shown.current, fields))
    })
    isBusy.value = false
  }
  // Fields have only default values: Preact would set a `value` again at each render, over the typed text.
  return (
    <form ref={form} class="wide-form" aria-label={title} onSubmit={submit}>
      <h1>{title}</h1>
      <label>
        Name
        <input name="name" required maxLength={255} defaultValue={apiKey?.name ?? ''} />
      </label>
      <fieldset>
        <legend>It may</legend>
        {offered.map((name) => (
          <label key={name} class="check">
            <input
              type="checkbox"
              name="permissions"
              value={name}
              defaultChecked={apiKey?.permissions.includes(name)}
            />
            <span>
              {name} <span class="soft">{MEANINGS[name]}</span>
            </span>
          </label>
        ))}
      </fieldset>
      <fieldset>
        <legend>On keys</legend>
        <label class="check">
          <input
            type="checkbox"
            name="limited"
            defaultChecked={limited !== undefined}
            onChange={checkInto(isLimited)}
          />
          <span>
            Only on these keys <span class="soft">otherwise on all</span>
          </span>
        </label>
        <label>
          Names, ids, or folders <span class="soft">such as customers/*, one a line; empty for no key at all</span>
          <textarea name="keys" rows={3} disabled={!isLimited.value} defaultValue={writeKeys(limited ?? [])} />
        </label>
      </fieldset>
      <label>
        From addresses <span class="soft">or ranges such as 10.0.0.0/8, one a line; empty for any</span>
        <textarea name="ips" rows={2} defaultValue={allowed_ips?.join('\n') ?? ''} />
      </label>
      <label>
        Expires <span class="soft">day, or day and time, of UTC; empty for never</span>
        <input name="expires" placeholder="2027-01-31" defaultValue={until} />
      </label>
      <fieldset class="budgets">
        <legend>At most</legend>
        {(['unwrap', 'hash'] as const).flatMap((kind) =>
          (['per_minute', 'per_day'] as const).map((window) => (
            <label key={`${kind} ${window}`}>
              {kind === 'unwrap' ? 'opened' : 'hashed'} {window.replace('per_', 'a ')}
              <input type="number" min={1} name={`${kind} ${window}`} defaultValue={budgets?.[kind]?.[window] ?? ''} />
            </label>
          )),
        )}
        <label class="check">
          <input type="checkbox" name="expire" defaultChecked={budgets?.when_over === 'expire'} />
          <span>
            expires when it exceeds one{' '}
            <span class="soft">until somebody renews it; otherwise it is refused for a while</span>
          </span>
        </label>
      </fieldset>
      <Problem error={error.value} />
      <p class="actions">
        <button type="submit" class="main" disabled={isBusy.value}>
          {act}
        </button>
        <Button onClick={onClose}>Cancel</Button>
      </p>
    </form>
  )
}

function readFields(data: FormData): NewApiKeyOptions {
  const text = (name: string) => String(data.get(name) ?? '').trim()
  const number = (name: string) => (text(name) === '' ? undefined : Number(text(name)))
  const permissions = PERMISSIONS.filter((name) => data.getAll('permissions').includes(name))
  const expires = text('expires')
  const expires_at = readTime(expires, 'end')
  if (expires !== '' && expires_at === undefined)
    throw new Error(`Expires must be a day such as 2027-01-31, got ${expires}`)
  const budgets = {
    unwrap: { per_minute: number('unwrap per_minute'), per_day: number('unwrap per_day') },
    hash: { per_minute: number('hash per_minute'), per_day: number('hash per_day') },
    ...(data.has('expire') ? { when_over: 'expire' as const } : {}),
  }
  const limits = [budgets.unwrap, budgets.hash].flatMap((one) => Object.values(one))
  const isLimited = limits.some((limit) => limit !== undefined)
  const ips = readLines(text('ips'))
  return {
    name: text('name'),
    permissions,
    expires_at: expires_at ?? null,
    allowed_ips: ips.length > 0 ? ips : null,
    // The choice whether it is limited is separate, so that an emptied field never means all keys.
    keys: data.has('limited') ? readKeys(text('keys')) : null,
    budgets: isLimited ? budgets : null,
  }
}
