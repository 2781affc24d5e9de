import type { Client } from '@eaas/sdk'

export interface Scene {
  keyId: string
  context: Record<string, string>
}
export interface Made {
  row: { email_index: string }
}

export function makeValues(eaas: Client, scene: Scene): Promise<Made>
export function openValues(eaas: Client, scene: Scene, made: Made): Promise<void>
