/** Output of the commands of the server, beyond what they share with `eaas-audit`. */
import { fstatSync } from 'node:fs'
import { visible, visibleLine, type wire } from '@eaas/protocol'

export { print, printBeside, printJson, showProgress, table } from '@eaas/audit/command'

/**
 * Prints lines that hold a secret which is shown only once. If they can't be written, reports what was lost,
 * and the exit code is 1.
 */
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

/** Prints an API key that was created, with its secret. `what` names it, and the command `revoke` revokes it. */
export function printNewApiKey(
  apiKey: wire.NewApiKey & { tenant_id?: string },
  { json, what, revoke }: { json: boolean; what: string; revoke: string },
): Promise<void> {
  const { id, secret } = apiKey
  const lines = [`${what} was created. Its secret, which is shown only once:`, '', `  ${secret}`, '']
  const lost = `API key ${id} was created, but its secret could not be printed and is lost. Revoke it: ${revoke}`
  return printOnce(json ? [JSON.stringify(apiKey)] : lines, lost)
}

/** Whether standard output is the stream with this device and inode, `device:inode`. */
export function isStandardOutput(stream: string | undefined): boolean {
  if (stream === undefined) return false
  const { dev, ino } = fstatSync(process.stdout.fd, { bigint: true })
  return stream === `${dev}:${ino}`
}

/** Says which columns of another database or a backup were left out of the one that was made. */
export function reportLeftOut(columns: readonly string[]): void {
  if (columns.length === 0) return
  process.stderr.write(`eaas: these columns are not of eaas and were left out: ${columns.map(visible).join(', ')}\n`)
}
