/** Output of the server's commands, beyond that shared with `eaas-audit`: to the terminal, and into new files. */
import { fstatSync } from 'node:fs'
import { resolve } from 'node:path'
import { createNewBy, type Sink, STANDARD_STREAM } from '@eaas/audit/command'
import { beforeEnd } from '@eaas/audit/node'
import { visibleLine, type wire } from '@eaas/protocol'
import { encryptTo } from '../../root-keys/age.js'

const NAMED_AT_MOST = 5

/** Drops the lines whose condition is false. */
export function linesOf(...lines: readonly (string | false | undefined)[]): string[] {
  return lines.filter((line) => typeof line === 'string')
}

export { print, printBeside, printJson, showProgress, table } from '@eaas/audit/command'

/** If printing the secret fails, says what was lost, with exit code 1. */
export function printOnce(lines: readonly string[], lost: string): Promise<void> {
  return new Promise((resolve) => {
    process.stdout.write(`${lines.map(visibleLine).join('\n')}\n`, (error) => {
      if (error) {
        process.stderr.write(`eaas: ${visibleLine(lost)}\n`)
        process.exitCode = 1
      }
      resolve()
    })
  })
}

/** `what` names the API key, and the command `revoke` revokes it. */
export function printNewApiKey(
  apiKey: wire.NewApiKey & { tenant_id?: string },
  { json, what, revoke }: { json: boolean; what: string; revoke: string },
): Promise<void> {
  const { id, secret } = apiKey
  const lines = [`${what} was created. Its secret, which is shown only once:`, '', `  ${secret}`, '']
  const lost = `API key ${id} was created, but its secret could not be printed and is lost. Revoke it: ${revoke}`
  return printOnce(json ? [JSON.stringify(apiKey)] : lines, lost)
}

/** One line, however many logs have alarms. */
export function printAlarms(alarms: number): void {
  if (alarms > 0)
    process.stderr.write(`eaas: there ${alarms === 1 ? 'is an alarm' : `are ${alarms} alarms`} about logs\n`)
}

export function isStandardOutput(stream: string | undefined): boolean {
  if (stream === undefined) return false
  const { dev, ino } = fstatSync(process.stdout.fd, { bigint: true })
  return stream === `${dev}:${ino}`
}

/** As `createNewBy`. If a signal ends the command before, says that nothing was written. */
export async function createOut<Made>(
  path: string,
  write: (sink: Sink) => Promise<Made>,
  content?: { isText: boolean },
): Promise<Made> {
  const what = path === STANDARD_STREAM ? 'the result' : resolve(path)
  const release = beforeEnd(() => process.stderr.write(`eaas: interrupted: ${what} was not written\n`))
  return createNewBy(path, write, content).finally(release)
}

// Calls `make` only after checking recipients and path, since it may leave entries in a log. @throws RecipientError;
// CommandError if the path exists, and stays unchanged, or cannot be written
export async function createSealedFile<Made extends { text: string }>(
  path: string,
  recipients: readonly string[],
  make: () => Promise<Made>,
): Promise<Made> {
  const encrypt = await encryptTo(recipients)
  return createOut(path, async (sink) => {
    const made = await make()
    const text = Buffer.from(made.text)
    try {
      await sink.write(await encrypt(text))
    } finally {
      text.fill(0)
    }
    return made
  })
}

export interface Finding {
  check: string
  ok: boolean
  warning?: true // does not prevent a start, but should be checked
  detail: string // what was found, and what to do if it is not ok
}

/** If an examination throws, its error becomes a finding that is not ok. */
export interface Result<T = never> extends Partial<Omit<Finding, 'check'>> {
  detail: string
  found?: T
}

/** Not reported, since another examination continues with what was found. */
export type Found<T> = { found: T; ok?: true; detail?: undefined }

export function wrong(detail: string): Result {
  return { ok: false, detail }
}

export function warn(detail: string): Result {
  return { warning: true, detail }
}

export function someOf(parts: readonly string[]): string {
  const more = parts.length > NAMED_AT_MOST ? [`and ${parts.length - NAMED_AT_MOST} more`] : []
  return [...parts.slice(0, NAMED_AT_MOST), ...more].join('; ')
}
