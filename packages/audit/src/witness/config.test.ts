import { resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readWitnessConfig, WITNESS_VARIABLES } from './config.js'
import { WitnessError } from './state-file.js'

describe('the configuration of a witness', () => {
  it('of an empty environment is the documented one, and so is that of empty variables', () => {
    const documented = {
      directory: resolve('.eaas-witness'),
      key: { value: undefined, file: undefined },
      logs: undefined,
      host: '127.0.0.1',
      port: 8421,
      logLevel: 'info',
      unknownVariables: [],
    }
    expect(readWitnessConfig({})).toEqual(documented)
    const empty = Object.fromEntries(Object.keys(WITNESS_VARIABLES).map((name) => [name, '']))
    expect(readWitnessConfig(empty)).toEqual(documented)
  })

  it.each([
    ['EAAS_WITNESS_DIR', '/var/lib/witness', { directory: '/var/lib/witness' }],
    ['EAAS_WITNESS_KEY', 'AAAA', { key: { value: 'AAAA', file: undefined } }],
    ['EAAS_WITNESS_KEY_FILE', '/run/key', { key: { value: undefined, file: '/run/key' } }],
    ['EAAS_WITNESS_LOGS', '/etc/logs', { logs: '/etc/logs' }],
    ['EAAS_WITNESS_HOST', '::', { host: '::' }],
    ['EAAS_WITNESS_PORT', '0', { port: 0 }],
    ['EAAS_LOG_LEVEL', 'debug', { logLevel: 'debug' }],
  ])('takes %s=%s', (name, value, expected) => {
    expect(Object.keys(WITNESS_VARIABLES)).toContain(name)
    expect(readWitnessConfig({ [name]: value })).toEqual({ ...readWitnessConfig({}), ...expected })
  })

  it.each([
    ['EAAS_WITNESS_PORT', '65536'],
    ['EAAS_WITNESS_PORT', '-1'],
    ['EAAS_WITNESS_PORT', '8e3'],
    ['EAAS_LOG_LEVEL', 'loud'],
  ])('refuses %s=%s by its name', (name, value) => {
    expect(() => readWitnessConfig({ [name]: value })).toThrow(WitnessError)
    expect(() => readWitnessConfig({ [name]: value })).toThrow(new RegExp(`^${name} must be `))
  })

  it('finds a variable that looks like one of a witness, and takes none of a server for one', () => {
    const environment = { EAAS_WITNESS_DIRECTORY: 'a', EAAS_WITNESSES: 'b', EAAS_DATABASE_URL: 'c' }
    expect(readWitnessConfig(environment).unknownVariables).toEqual(['EAAS_WITNESS_DIRECTORY'])
  })
})
