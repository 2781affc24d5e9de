// The rows of the measurement, and how an application writes and reads them; prints `RESULT <json>`, in milliseconds.
import { randomUUID } from 'node:crypto'

/** Rows in one statement. */
const AT_ONCE = 1_000

export interface Person {
  id: string
  email: string
  nick: string
  city: string
  prefs: object
}

export interface Application {
  write(people: Person[]): Promise<unknown>
  read(): Promise<{ id: string }[]>
  find(email: string): Promise<{ id: string } | null>
  clear(): Promise<unknown>
}

export function makePeople(count: number): Person[] {
  return Array.from({ length: count }, (_, at) => ({
    id: randomUUID(),
    email: `ada.lovelace.${at}@example.org`,
    nick: `countess ${at}`,
    city: `${at} St James Square, London`,
    prefs: { colour: 'green', newsletter: at % 2 === 0 },
  }))
}

/** Writes the rows, reads all and finds one by its e-mail address; a few rows first, which do not count. */
export async function measureApplication(count: number, { write, read, find, clear }: Application): Promise<void> {
  const round = async (people: Person[]) => {
    await clear()
    const cpu = process.cpuUsage()
    const startedAt = performance.now()
    for (let at = 0; at < people.length; at += AT_ONCE) await write(people.slice(at, at + AT_ONCE))
    const writtenAt = performance.now()
    const found = await read()
    const readAt = performance.now()
    const { user, system } = process.cpuUsage(cpu)
    const byId = new Map(found.map((one) => [one.id, one]))
    for (const person of people) {
      const expected = JSON.stringify(person)
      const given = Object.fromEntries(Object.keys(person).map((name) => [name, byId.get(person.id)?.[name as 'id']]))
      if (JSON.stringify(given) !== expected) throw new Error(`a row did not come back as it was: ${expected}`)
    }
    const [first] = people
    if (first && (await find(first.email))?.id !== first.id)
      throw new Error('a row was not found by its e-mail address')
    return { write: writtenAt - startedAt, read: readAt - writtenAt, cpu: (user + system) / 1_000 }
  }
  await round(makePeople(100))
  console.log(`RESULT ${JSON.stringify(await round(makePeople(count)))}`)
}
