// Every call that the SDK makes, to a service that the tests of a file share.
import { type Envelope, type OperationId, ROUTES } from '@eaas/protocol'
import { beforeAll } from 'vitest'
import type { Client } from '../index.js'
import { API_CALLS } from './api-calls.js'
import { clientsOf, useService } from './clients.js'
import { operationOf, type Service } from './service.js'

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
    stored = await connect().encrypt('SECRET', { keyId, envelope: 1 })
  })
}

/** Every call that the SDK makes with an API key, as the service names it, and whether it may be repeated. */
export const calls = [
  ...Object.entries(API_CALLS).flatMap(([id, [repeatable, run]]) => {
    const { method, path } = ROUTES[id as OperationId]
    const call = (eaas: Client) => run(eaas, { keyId, name: 'k', text: 'SECRET', stored, apiKeyId: keyId })
    return id === 'getHealth' ? [] : [[operationOf(method, path), repeatable, call] as const]
  }),
  [
    'batch',
    true,
    (eaas: Client): Promise<unknown> => Promise.all([eaas.hash('SECRET', { keyId }), eaas.hash('SECRET2', { keyId })]),
  ],
] as const
