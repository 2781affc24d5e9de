/**
 * Says what the errors of the SDK say in words of the command: options and variables instead of the members
 * that a program passes.
 */
import type { EaasError } from '@eaas/sdk'

const WORDS: readonly (readonly [RegExp, string])[] = [
  [/pass `allowInsecure: true`/, 'pass --allow-insecure'],
  [/Check that baseUrl names/, 'Check that EAAS_BASE_URL names'],
  [/\bbaseUrl\b/g, 'EAAS_BASE_URL'],
  [/Pass an absolute URL/, 'Set it to an absolute URL'],
  [/^apiKey must/, 'the API key must'],
  [/ With a broker, log in\./, ''],
  [/^(batchSize|rowsPerSecond) must/, '--$1 must'],
  [/--batchSize/, '--batch-size'],
  [/--rowsPerSecond/, '--rows-per-second'],
  [/Name it in `columns`/, 'Name it by --column <name=column>'],
  [/^columns: /, '--column: '],
  [/, in `key`\./, ', by --key-columns.'],
  [/or a reader of the column in `read`/, 'or a reader of the column by --read'],
  [/^after (is|belongs)/, 'the key in the file of --state $1'],
  [/Pass the text that progress told, or omit it\./, 'Remove the file to begin at the first row.'],
  [/Omit it to begin/, 'Remove the file to begin'],
  [/^read: /, '--read: '],
  [/`read` refused/, 'the reader of --read refused'],
]

/** What was wrong, and what to do about it. */
export function inCommandWords({ message, hint }: Pick<EaasError, 'message' | 'hint'>): {
  message: string
  hint: string
} {
  return { message: translate(message), hint: translate(hint) }
}

function translate(text: string): string {
  return WORDS.reduce((changed, [pattern, words]) => changed.replace(pattern, words), text)
}
