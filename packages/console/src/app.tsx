/** The frame of every page: navigation, search, keyboard. */
import { visible } from '@eaas/protocol'
import { signal, useSignal } from '@preact/signals'
import type { ComponentType } from 'preact'
import { useEffect } from 'preact/hooks'
import { goTo, linkTo, param, place, setParams, verifierUrl } from './location.js'
import { isOperator } from './operator.js'
import { ApiKeysPage } from './pages/api-keys.js'
import { HealthPage } from './pages/health.js'
import { KeyPage } from './pages/key.js'
import { KeysPage } from './pages/keys.js'
import { LogPage } from './pages/log.js'
import { SignIn } from './pages/sign-in.js'
import { endProblem, mayTry, offeredKey, session, signOut } from './session.js'
import { attempt, Problem } from './ui/outcome.js'
import { moveRow } from './ui/table.js'
import { Button, said, setTo } from './ui/values.js'

type Permission = Parameters<typeof mayTry>[0]

interface PageRow {
  name: string
  title: string
  letter: string // typed after `g`
  needs?: Permission
  page: ComponentType
}

// Pages that are not needed at once are loaded when they are shown.
const RightsPage = later(async () => (await import('./pages/rights.js')).RightsPage)
const UsagePage = later(async () => (await import('./pages/usage.js')).UsagePage)
const TenantsPage = later(async () => (await import('./pages/tenants.js')).TenantsPage)
const InstallationPage = later(async () => (await import('./pages/installation.js')).InstallationPage)

const PAGES: readonly PageRow[] = [
  { name: 'keys', title: 'Keys', letter: 'k', needs: 'keys:read', page: KeyOrKeys },
  { name: 'api-keys', title: 'API keys', letter: 'a', needs: 'api_keys:read', page: ApiKeysPage },
  { name: 'log', title: 'Log', letter: 'l', needs: 'audit:read', page: LogPage },
  { name: 'rights', title: 'Rights', letter: 'r', needs: 'audit:read', page: RightsPage },
  { name: 'usage', title: 'Usage', letter: 'u', needs: 'audit:read', page: UsagePage },
  { name: 'health', title: 'Health', letter: 'h', page: HealthPage },
]

const OPERATORS_PAGES: readonly PageRow[] = [
  { name: 'tenants', title: 'Tenants', letter: 't', page: TenantsPage },
  { name: 'installation', title: 'Installation', letter: 'i', page: InstallationPage },
]

const isHelpShown = signal(false)
const FIELDS = 'input, select, textarea, dialog *' // keys typed in a field are text
const GO_MS = 1_500

export function App() {
  useEffect(() => {
    let isGoing = false
    const onKey = (event: KeyboardEvent) => {
      const { key, ctrlKey, metaKey, altKey, target } = event
      if (!isSignedIn() || ctrlKey || metaKey || altKey || (target as Element).matches?.(FIELDS)) return
      const found = isGoing ? shownPages().find(({ letter }) => letter === key) : undefined
      if (found) goTo(found.name)
      else if (isGoing && key === 'v') open(verifierUrl(), '_blank', 'noopener')
      else if (key === 'j' || key === 'k') moveRow(key === 'j' ? 1 : -1)
      else if (key === '?') isHelpShown.value = !isHelpShown.value
      else if (key === 'Escape') isHelpShown.value = false
      else if (key === '/') document.querySelector<HTMLElement>('[type=search]')?.focus()
      else if (key !== 'g') return
      if (key === '/') event.preventDefault()
      isGoing = key === 'g'
      const end = () => {
        isGoing = false
      }
      if (isGoing) setTimeout(end, GO_MS)
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [])
  if (!isSignedIn() || offeredKey.value || place.value.page === 'sign-in') return <SignIn />
  const shown = shownPages()
  const current = place.value.page || shown[0]?.name
  const Page = shown.find(({ name }) => name === current)?.page
  return (
    <>
      <header>
        <strong>{isOperator() ? 'Operator' : visible(session.value?.tenant?.name ?? 'EaaS')}</strong>
        <nav aria-label="Pages">
          {shown.map(({ name, title }) => (
            <a key={name} href={linkTo(name)} aria-current={name === current ? 'page' : undefined}>
              {title}
            </a>
          ))}
          <a href={verifierUrl()} target="_blank" rel="noopener">
            Verify
          </a>
        </nav>
        <span class="tools">
          <Button
            aria-pressed={param('utc') !== ''}
            onClick={() => setParams({ utc: param('utc') === '' ? '1' : undefined })}
          >
            UTC
          </Button>
          <Button aria-label="Keyboard" onClick={setTo(isHelpShown, !isHelpShown.value)}>
            ?
          </Button>
          <Button onClick={signOut}>Sign out</Button>
        </span>
      </header>
      {isHelpShown.value && <Help />}
      <main>
        <Problem error={endProblem.value} />
        {Page ? (
          <Page key={current} />
        ) : (
          <p class="empty">This API key may not see this page. {shown.length > 0 && 'Choose another one above.'}</p>
        )}
      </main>
      <div class="said" role="status">
        {said.value}
      </div>
    </>
  )
}

function KeyOrKeys() {
  const { id } = place.value
  return id ? <KeyPage key={id} id={id} /> : <KeysPage />
}

function isSignedIn(): boolean {
  return session.value !== undefined || isOperator()
}

function shownPages(): readonly PageRow[] {
  if (isOperator()) return OPERATORS_PAGES
  return PAGES.filter(({ needs }) => needs === undefined || mayTry(needs))
}

function Help() {
  return (
    <section class="help" aria-label="Keyboard">
      <dl>
        <dt>/</dt>
        <dd>search</dd>
        <dt>j k</dt>
        <dd>next and previous row; Enter opens it</dd>
        {shownPages().map(({ letter, title }) => [<dt key={letter}>g {letter}</dt>, <dd key={title}>{title}</dd>])}
        <dt>g v</dt>
        <dd>Verify</dd>
        <dt>?</dt>
        <dd>this list</dd>
      </dl>
    </section>
  )
}

function later(load: () => Promise<ComponentType>): ComponentType {
  const loaded = signal<ComponentType | undefined>(undefined)
  return () => {
    const error = useSignal<unknown>(undefined)
    useEffect(() => {
      if (loaded.value) return
      void attempt(error, async () => {
        loaded.value = await load()
      })
    }, [])
    const Page = loaded.value
    return Page ? <Page /> : <Problem error={error.value} />
  }
}
