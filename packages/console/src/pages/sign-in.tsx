/** The user pastes the API key here; the field is cleared once it was read. */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { place, takeLinkKey, verifierUrl } from '../location.js'
import { signIn, signInByLink } from '../session.js'
import { attempt, Problem } from '../ui/problem.js'

export function SignIn() {
  const error = useSignal<unknown>(undefined)
  const isBusy = useSignal(false)
  const run = async (work: () => Promise<unknown>) => {
    isBusy.value = true
    await attempt(error, work)
    isBusy.value = false
  }
  useEffect(() => {
    const linkKey = takeLinkKey()
    if (linkKey !== undefined) void run(() => signInByLink(linkKey))
  }, [place.value.page])
  const submit = async (event: Event) => {
    event.preventDefault()
    const field = (event.currentTarget as HTMLFormElement).elements.namedItem('api-key') as HTMLInputElement
    const apiKey = field.value.trim()
    field.value = ''
    await run(() => signIn(apiKey))
  }
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
        </p>
      </form>
      <Problem error={error.value} />
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
