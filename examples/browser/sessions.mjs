// Who is signed in: a cookie that no script reads and no other site sends. A real application asks for a password.
import { randomBytes } from 'node:crypto'

/** @typedef {{ id: string, name: string, may_add: boolean, may_search: boolean, may_read: boolean }} User */

/** @type {readonly User[]} */
const USERS = [
  { id: 'ada', name: 'Ada', may_add: true, may_search: true, may_read: true },
  { id: 'ben', name: 'Ben', may_add: true, may_search: true, may_read: false },
  // Not on the page, for a program: opens the rows that it is given, but must not be able to search for a person.
  { id: 'cleo', name: 'Cleo', may_add: false, may_search: false, may_read: true },
]

export function createSessions() {
  /** @type {Map<string, User>} */
  const sessions = new Map()
  return {
    /**
     * Begins a session and ends the previous one. Returns its user and its cookie, or undefined for an unknown user.
     *
     * @param {unknown} id
     * @param {string | null | undefined} cookie
     */
    begin(id, cookie) {
      const user = USERS.find((one) => one.id === id)
      if (!user) return undefined
      sessions.delete(tokenOf(cookie))
      const token = randomBytes(32).toString('base64url')
      sessions.set(token, user)
      return { user, cookie: `session=${token}; Path=/; HttpOnly; SameSite=Strict` }
    },
    /** @param {string | null | undefined} cookie the header of a request */
    find: (cookie) => sessions.get(tokenOf(cookie)),
  }
}

/** @param {string | null | undefined} cookie */
function tokenOf(cookie) {
  return /(?:^|; )session=([\w-]{43})(?:;|$)/.exec(cookie ?? '')?.[1] ?? ''
}
