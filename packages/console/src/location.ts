/** What the page shows, in the fragment of the URL, so that a view can be sent to a colleague: `#/log?action=key.unwrap`. */
import { computed, signal } from '@preact/signals'

export interface Place {
  page: string // '' for the first one
  id: string | undefined // of a key, in `#/keys/<id>`
  params: URLSearchParams
}

const fragment = signal(globalThis.location?.hash ?? '')
globalThis.addEventListener?.('hashchange', () => {
  fragment.value = location.hash
})

export const place = computed(() => readPlace(fragment.value))

function readPlace(hash: string): Place {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?', 2)
  const [page = '', id] = path.split('/', 2)
  return { page, id: id || undefined, params: new URLSearchParams(query) }
}

/** Removes the API key of a sign-in link from the URL and returns it; undefined for any other URL. */
export function takeLinkKey(): string | undefined {
  const { page, id } = place.value
  if (page !== 'sign-in') return undefined
  history.replaceState(null, '', '#/')
  fragment.value = '#/'
  return id
}

/** The URL of a page; drops undefined and empty parameters, and keeps the choice of UTC. */
export function linkTo(page: string, params: Readonly<Record<string, string | undefined>> = {}): string {
  const utc = place.value.params.get('utc') ?? undefined
  const given = Object.entries({ utc, ...params }).filter((pair): pair is [string, string] => Boolean(pair[1]))
  const query = new URLSearchParams(given).toString()
  return `#/${page}${query === '' ? '' : `?${query}`}`
}

/** The URL of the page that verifies exports, after any prefix of a proxy, optionally with an entry to prove. */
export function verifierUrl(entry?: number): string {
  return `${location.pathname.replace(/\/$/, '')}/verify${entry === undefined ? '' : `#entry=${entry}`}`
}

export function goTo(page: string): void {
  location.hash = linkTo(page)
}

/** Changes parameters of the current page, without a new step in the history. */
export function setParams(changes: Readonly<Record<string, string | undefined>>): void {
  const { page, id, params } = place.value
  const all = { ...Object.fromEntries(params), ...changes }
  const hash = linkTo(id === undefined ? page : `${page}/${id}`, { ...all, utc: all.utc })
  history.replaceState(null, '', hash)
  fragment.value = hash
}

/** A parameter of the current page, '' if missing. */
export function param(name: string): string {
  return place.value.params.get(name) ?? ''
}
