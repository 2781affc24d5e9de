/** `eaas-audit follow`: reads a tenant's entries over HTTP as they are written, and delivers them to a SIEM. */
import type { Command } from 'commander'
import { CommandError } from './files.js'
import { addDeliveryOptions, type DeliveryOptions, deliverFrom } from './follow/deliver.js'
import { readAddress, readToken } from './follow/request.js'
import { followService, type Service } from './follow/service-log.js'
import * as cli from './options.js'

interface FollowCommand extends DeliveryOptions {
  apiKeyFile?: string
  publicKey?: string
}

export const FOLLOW_VARIABLES = {
  EAAS_URL: 'URL of the service, as in https://eaas.example.org',
  EAAS_API_KEY: 'an API key with audit:read, if --api-key-file does not have one',
}

export function addFollow(program: Command): void {
  addDeliveryOptions(program.command('follow'))
    .description(
      "Deliver a tenant's entries as they are written, each verified, until SIGINT or SIGTERM: one JSON object a line, to standard output or to a SIEM. With a cursor, none is left out, but one may arrive twice. It needs an API key with audit:read, but neither the server's database nor its root key.",
    )
    .option('--api-key-file <file>', 'file with the API key alone; it is read for each request', cli.readKeptPath)
    .option(
      '--public-key <key>',
      'the public key that you trust, or a file with it (default: the one that the service has)',
    )
    .addHelpText('after', cli.describeVariables(FOLLOW_VARIABLES))
    .action(async (given: FollowCommand, command: Command) => {
      const { apiKeyFile, publicKey, ...delivery } = await cli.withKey(given, command)
      const service = { ...readService(process.env, apiKeyFile), publicKey }
      await deliverFrom(delivery, { name: 'eaas-audit' }, (source) =>
        followService(service, delivery.afterId ?? 0, source),
      )
    })
}

/** Reads the service's URL and the API key. The key is never an argument, since other users of the machine can read those. */
function readService(
  { EAAS_URL, EAAS_API_KEY }: Readonly<Record<string, string | undefined>>,
  apiKeyFile: string | undefined,
): Omit<Service, 'publicKey'> {
  if (!EAAS_URL) throw new CommandError('no service: set EAAS_URL')
  const url = readAddress(EAAS_URL, { given: 'EAAS_URL', secret: '--api-key-file' })
  if (apiKeyFile !== undefined) return { url, readApiKey: () => readToken(apiKeyFile) }
  if (!EAAS_API_KEY) throw new CommandError('no API key: set EAAS_API_KEY, or pass --api-key-file <file>')
  return { url, readApiKey: async () => EAAS_API_KEY.trim() }
}
