// Every call that the SDK makes, to a service that the tests of a file share.
import type { Envelope } from '@eaas/protocol'
import { beforeAll } from 'vitest'
import type { Client } from '../index.js'
import { clientsOf, useService } from './clients.js'
import type { Service } from './service.js'

export let service: Service
/** Makes a client, which is closed at the end of its test. */
export let connect: ReturnType<typeof clientsOf>
/** A key of the service. */
export let keyId: string
/** 'SECRET', encrypted under that key. */
export let stored: Envelope

/** Starts the service for the tests of a file. */
export function useEveryCall(): void {
  service = useService()
  connect = clientsOf(service)
  beforeAll(async () => {
    keyId = service.createKey()
    stored = await connect().encrypt('SECRET', { keyId })
  })
}

/** Every call that the SDK makes, and whether it may be repeated. */
export const calls = [
  ['wrap', true, (eaas: Client) => eaas.encrypt('SECRET', { keyId })],
  ['unwrap', true, (eaas: Client) => eaas.decrypt(stored)],
  ['hash', true, (eaas: Client) => eaas.hash('SECRET', { keyId })],
  ['list', true, (eaas: Client) => eaas.keys.list()],
  ['get', true, (eaas: Client) => eaas.keys.get(keyId)],
  ['audit', true, (eaas: Client) => eaas.audit.list()],
  ['verify', true, (eaas: Client) => eaas.audit.verify()],
  ['create', false, (eaas: Client) => eaas.keys.create({ name: 'retried' })],
  ['rotate', false, (eaas: Client) => eaas.keys.rotate(keyId)],
  ['rotation', false, (eaas: Client) => eaas.keys.setRotation(keyId, 30)],
  ['disable', false, (eaas: Client) => eaas.keys.disable(keyId)],
  ['enable', false, (eaas: Client) => eaas.keys.enable(keyId)],
  ['destroy', false, (eaas: Client) => eaas.keys.destroy(keyId, 'k')],
  ['cancel', false, (eaas: Client) => eaas.keys.cancelDestruction(keyId)],
  ['export', false, (eaas: Client) => eaas.keys.export(keyId)],
  ['list api-keys', true, (eaas: Client) => eaas.apiKeys.list()],
  ['create api-keys', false, (eaas: Client) => eaas.apiKeys.create({ name: 'ci', permissions: [] })],
  ['update api-keys', false, (eaas: Client) => eaas.apiKeys.update(keyId, {})],
  ['revoke api-keys', false, (eaas: Client) => eaas.apiKeys.revoke(keyId)],
  ['tenant', true, (eaas: Client) => eaas.tenant()],
  ['usage', true, (eaas: Client) => eaas.usage()],
  ['encrypt', true, (eaas: Client) => eaas.server.encrypt('SECRET', { keyId })],
  ['decrypt', true, (eaas: Client) => eaas.server.decrypt(stored)],
  ['rewrap', true, (eaas: Client) => eaas.rewrap(stored)],
  ['batch', true, (eaas: Client) => Promise.all([eaas.hash('SECRET', { keyId }), eaas.hash('SECRET2', { keyId })])],
] as const
