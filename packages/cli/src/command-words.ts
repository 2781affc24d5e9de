/** Rewrites what the SDK's errors say about its options in words of the command, whose options differ. */
import type { EaasError } from '@eaas/sdk'

interface Words {
  name: string
  /** what to do about it here, if that is not what the SDK advises */
  remedy?: string
}

const OPTIONS: Readonly<Record<string, Words>> = {
  baseUrl: {
    name: 'EAAS_URL',
    remedy:
      'Set it to an absolute URL, such as https://example.org/eaas; for http to another machine also pass --allow-insecure.',
  },
  apiKey: { name: 'the API key' },
  batchSize: { name: '--batch-size' },
  rowsPerSecond: { name: '--rows-per-second' },
  columns: { name: '--column', remedy: 'Name it by --column <name=column>.' },
  key: {
    name: '--key-columns',
    remedy: 'Name columns of a unique index by --key-columns, none of which may be null, of types such as uuid.',
  },
  read: { name: '--read' },
  after: {
    name: 'the key in the file of --state',
    remedy: 'Remove the file to begin at the first row: rows that are done cost reading only.',
  },
}

export function inCommandWords(error: EaasError): { message: string; hint: string } {
  const { code, message, hint } = error
  if (code === 'E_API' && error.httpStatus === 401) {
    return { message, hint: 'Check the API key: it is missing, unknown, expired or revoked.' } // the command has no broker
  }
  const option = code === 'E_INVALID_INPUT' ? error.option : undefined
  const words = option === undefined ? undefined : OPTIONS[option]
  if (option === undefined || words === undefined) return { message, hint }
  const [first = ''] = message.split(/\W/, 1)
  return { message: first === option ? words.name + message.slice(option.length) : message, hint: words.remedy ?? hint }
}
