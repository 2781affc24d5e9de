// Notes what a client sends: which route, how often, and the names of the fields in the bodies, never their values.

/** @typedef {{ route: string, requests: number, fields: Set<string> }} Sent */

/** Makes a `fetch` to hand to `createClient`, and the notes that it keeps. */
export function watchTraffic() {
  /** @type {Map<string, Sent>} */
  const notes = new Map()

  /** @type {typeof fetch} */
  const watchedFetch = async (input, init) => {
    const request = new Request(input, init)
    const path = new URL(request.url).pathname.replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, ':id')
    const route = `${request.method} ${path}`
    const note = notes.get(route) ?? { route, requests: 0, fields: new Set() }
    notes.set(route, note)
    note.requests++
    const body = await request.clone().text()
    for (const field of fieldsOf(body === '' ? {} : JSON.parse(body))) note.fields.add(field)
    return fetch(request)
  }
  return { fetch: watchedFetch, sent: () => [...notes.values()] }
}

/**
 * The names of an object's fields, those of objects in lists included.
 *
 * @param {object} body
 * @returns {string[]}
 */
function fieldsOf(body) {
  return Object.entries(body).flatMap(([name, value]) =>
    Array.isArray(value) ? value.flatMap((item) => fieldsOf(item).map((field) => `${name}[].${field}`)) : [name],
  )
}
