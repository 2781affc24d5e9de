/** The user pastes an API key, and the field is cleared after reading it; or the user accepts the sign-in of a link. */
import { visible } from '@eaas/protocol'
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { place, takeLinkKey, verifierUrl } from '../location.js'
import { isOperator } from '../operator.js'
import { endProblem, type Offer, offeredKey, readLink, session, signIn } from '../session.js'
import { attempt, Problem } from '../ui/outcome.js'
import { Button } from '../ui/values.js'

export function SignIn() {
  const error = useSignal<unknown>(undefined)
  const isBusy = useSignal(false)
  const offer = useSignal<Offer | undefined>(undefined)
  const run = async (work: () => Promise<unknown>) => {
    isBusy.value = true
    await attempt(error, work)
    isBusy.value = false
  }
  useEffect(() => {
    if (place.value.page !== 'sign-in') return
    const linkKey = takeLinkKey()
    offeredKey.value = linkKey
    offer.value = undefined
    if (linkKey === undefined) return
    void run(async () => {
      const found = await readLink(linkKey)
      if (offeredKey.value === linkKey) offer.value = found // not if it was declined, or another link was opened
    })
  }, [place.value.page])
  const submit = async (event: Event) => {
    event.preventDefault()
    const field = (event.currentTarget as HTMLFormElement).elements.namedItem('api-key') as HTMLInputElement
    const apiKey = field.value.trim()
    field.value = ''
    await run(async () => {
      await signIn(apiKey)
      offeredKey.value = undefined
    })
  }
  const decline = () => {
    offeredKey.value = undefined
    offer.value = undefined
    error.value = undefined
  }
  const { value: offered } = offer
  if (offered)
    return (
      <main class="sign-in">
        <h1>EaaS console</h1>
        <p>
          This link signs in to <strong>{visible(offered.tenant?.name ?? 'a tenant that it may not name')}</strong>{' '}
          {offered.tenant && <code>{offered.tenant.tenant_id}</code>} with {offered.permissions.join(', ')}.
        </p>
        {(session.value || isOperator()) && (
          <p>
            You are signed in {isOperator() ? 'as' : 'to'}{' '}
            <strong>{isOperator() ? 'operator' : visible(session.value?.tenant?.name ?? 'a tenant')}</strong>: that
            session ends.
          </p>
        )}
        <p class="actions">
          <Button class="main" disabled={isBusy.value} onClick={() => run(offered.accept)}>
            Sign in
          </Button>
          <Button onClick={decline}>Cancel</Button>
        </p>
        <Problem error={error.value} />
        <Problem error={endProblem.value} />
      </main>
    )
  return (
    <main class="sign-in">
      <h1>EaaS console</h1>
      <form onSubmit={submit}>
        <label>
          API key
          <input name="api-key" type="password" autocomplete="off" required spellcheck={false} />
        </label>
        <p class="actions">
          <button type="submit" class="main" disabled={isBusy.value}>
            Sign in
          </button>
          {offeredKey.value && <Button onClick={decline}>Cancel</Button>}
        </p>
      </form>
      <Problem error={error.value} />
      <Problem error={endProblem.value} />
      <p class="soft">
        The API key stays in this page's memory: leaving or reloading the page signs out. Use one that may do only what
        you need here. On the server, <code>eaas console</code> prints a link that signs in without one.
      </p>
      <p class="soft">
        An auditor needs no API key: <a href={verifierUrl()}>verify an export</a>.
      </p>
    </main>
  )
}
