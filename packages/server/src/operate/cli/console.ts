/** `eaas console`: prints a link that signs in at the console once, so that nobody has to paste an API key. */
import { PERMISSIONS, type Permission } from '@eaas/protocol'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { createApiKey } from '../../core/api/api-keys.js'
import { type Config, ConfigError, getPort } from '../../core/config.js'
import { readPermissions } from './api-key.js'
import { commandConfig, JSON_OPTION, TENANT_OPTION } from './command.js'
import { baseUrl } from './greeting.js'
import { printOnce } from './output.js'
import { describeTenant, performIn } from './with-services.js'

const NAME = 'eaas console'
const LINK_MS = 300_000
const READING: readonly Permission[] = ['keys:read', 'audit:read']
/** The page lists API keys to find its own, and creates the session's, which does not get the second permission. */
const EXCHANGING: readonly Permission[] = ['api_keys:read', 'api_keys:manage']
const EVERY_ADDRESS = ['0.0.0.0', '::']

export function addConsole(program: Command): void {
  program
    .command('console')
    .description(
      "Print a link that signs in at the console, once and within five minutes. The session lasts an hour and can't make or change API keys: for that, paste an API key.",
    )
    .addOption(TENANT_OPTION)
    .addOption(
      new Option(
        '--permissions <list>',
        `what the session may do besides api_keys:read, comma-separated:  ${PERMISSIONS.filter((name) => !EXCHANGING.includes(name)).join(',')}`,
      )
        .argParser(readSessionPermissions)
        .default(READING, READING.join(',')),
    )
    .option('--url <url>', 'where browsers reach the server (default: where it listens)', readUrl)
    .addOption(JSON_OPTION)
    .action((options) => printLink(commandConfig(), options))
}

function readSessionPermissions(text: string): Permission[] {
  const permissions = readPermissions(text)
  if (!permissions.includes('api_keys:manage')) return permissions
  throw new InvalidArgumentError('A session of a link does not manage API keys: paste an API key that does.')
}

function readUrl(text: string): string {
  if (!URL.canParse(text)) throw new InvalidArgumentError('It is not a URL.')
  const url = new URL(text)
  url.hash = ''
  return url.href.replace(/\/+$/, '')
}

type Options = { tenant: string; permissions: readonly Permission[]; url?: string; json: boolean }

async function printLink(config: Config, { tenant, permissions, url = urlOf(config), json }: Options): Promise<void> {
  if (!config.hasConsole) throw new ConfigError('EAAS_CONSOLE=off: the server serves no console')
  const expires_at = new Date(Date.now() + LINK_MS).toISOString()
  const fields = {
    name: NAME,
    permissions: [...new Set([...permissions, ...EXCHANGING])],
    expires_at,
    allowed_ips: null,
    keys: null,
  }
  const { owner, answer } = await performIn({ tenant }, createApiKey(fields), config)
  const link = `${url}/console#/sign-in/${answer.secret}`
  const lines = json
    ? [JSON.stringify({ url: link, expires_at, api_key_id: answer.id, tenant_id: owner.tenant_id })]
    : [
        `Whoever opens this link first is signed in for an hour at the console of ${describeTenant(owner)}:`,
        '',
        `  ${link}`,
        '',
        'It works once, within five minutes.',
      ]
  if (!isSecure(new URL(url))) {
    process.stderr.write(
      'eaas: over plain HTTP from another machine the page refuses to sign in: give the address with HTTPS (--url https://…)\n',
    )
  }
  await printOnce(lines, 'The link could not be printed. Make another one; this one expires in five minutes.')
}

function isSecure({ protocol, hostname }: URL): boolean {
  return protocol === 'https:' || /^(?:(?:.+\.)?localhost|127\.[\d.]+|\[::1\])$/.test(hostname)
}

function urlOf({ host, tls, socket, ...config }: Config): string {
  const port = socket === undefined ? getPort(config) : 0
  if (port === 0) {
    throw new ConfigError('the server listens on a socket or on any free port: say with --url where browsers reach it')
  }
  return baseUrl(EVERY_ADDRESS.includes(host) ? '127.0.0.1' : host, port, { isTls: tls !== undefined })
}
