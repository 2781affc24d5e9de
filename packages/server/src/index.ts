/** The server as a library: the whole API as a Fastify application, which can listen or be mounted in another one. */
import type { FastifyInstance } from 'fastify'
import { type Config, ownMembers, readConfig } from './core/config.js'
import { openBlindHasher } from './installation.js'
import { openServer } from './server.js'

export { DataDirectoryInUseError } from '@eaas/audit/node'
export { type Config, ConfigError, readConfig } from './core/config.js'
export { RootKeyError } from './core/crypto/key-hierarchy.js'
export { ForeignDataDirectoryError } from './embedded/database.js'

export interface BuildServerOptions {
  /** the result of `readConfig`; by default for this process's environment */
  config?: Config
  /** milliseconds since 1970; destruction, rotation by policy and purges also wait for the database's clock */
  now?: () => number
}

/**
 * Opens the database that the configuration names and returns the application, which does not listen yet. Closing it
 * answers the calls under way, commits, and closes the database.
 * @throws ConfigError, RootKeyError, DataDirectoryInUseError, ForeignDataDirectoryError, or the database's own error
 */
export async function buildServer(options: BuildServerOptions = {}): Promise<FastifyInstance> {
  const { config = readConfig(process.env), now } = ownMembers(options)
  return (await openServer({ config, now, openBlindHasher, takesSchemas: true })).app
}
