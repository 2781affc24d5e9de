// The rows of the measurement, and how an application writes and reads them; prints `RESULT <json>`, in milliseconds.
import { randomUUID } from 'node:crypto'

/** Rows in one statement. */
const AT_ONCE = 1_000

/** @param {number} count */
export function makePeople(count) {
  return Array.from({ length: count }, (_, at) => ({
    id: randomUUID(),
    email: `ada.lovelace.${at}@example.org`,
    nick: `countess ${at}`,
    city: `${at} St James Square, London`,
    prefs: { colour: 'green', newsletter: at % 2 === 0 },
  }))
}

/**
 * Writes the rows, reads all and finds one by its e-mail address. A few rows first, which do not count.
 * @param {number} count
 * @param {{ write(rows: object[]): Promise<unknown>; read(): Promise<object[]>; find(email: string): Promise<unknown>; clear(): Promise<unknown> }} application
 */
export async function measureRows(count, { write, read, find, clear }) {
  const round = async (people) => {
    await clear()
    const cpu = process.cpuUsage()
    const startedAt = performance.now()
    for (let at = 0; at < people.length; at += AT_ONCE) await write(people.slice(at, at + AT_ONCE))
    const writtenAt = performance.now()
    const found = await read()
    const readAt = performance.now()
    const { user, system } = process.cpuUsage(cpu)
    const byId = new Map(found.map((one) => [one.id, one]))
    for (const { id, ...fields } of people) {
      for (const [name, value] of Object.entries(fields)) {
        if (JSON.stringify(byId.get(id)?.[name]) !== JSON.stringify(value)) throw new Error(`${name} did not come back`)
      }
    }
    if ((await find(people[0].email))?.id !== people[0].id) throw new Error('a row was not found by its e-mail address')
    return { write: writtenAt - startedAt, read: readAt - writtenAt, cpu: (user + system) / 1_000 }
  }
  await round(makePeople(100))
  console.log(`RESULT ${JSON.stringify(await round(makePeople(count)))}`)
}
