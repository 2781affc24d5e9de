/** Limits the exports that run at once in this process, so that they cannot occupy the database. */
import type { Readable } from 'node:stream'
import { Refusal } from './refusal.js'

/** Exports that may run at once in a process, and for one tenant; more are refused. */
const EXPORTS_AT_ONCE = 4
const EXPORTS_OF_TENANT = 2

const running: string[] = []

/** Counts an export until its stream closes, whether it was read to the end or not. @throws Refusal E_UNAVAILABLE when too many run */
export async function countExport(tenant_id: string, open: () => Promise<Readable>): Promise<Readable> {
  const ofTenant = running.filter((one) => one === tenant_id).length
  if (running.length >= EXPORTS_AT_ONCE || ofTenant >= EXPORTS_OF_TENANT) {
    throw new Refusal('E_UNAVAILABLE', 'other exports are running; try again when they are done')
  }
  running.push(tenant_id)
  const end = () => running.splice(running.indexOf(tenant_id), 1)
  try {
    return (await open()).once('close', end)
  } catch (error) {
    end()
    throw error
  }
}
