import { createClient } from '@eaas/sdk'

// At the top of a module, which the build loads without this environment.
export const eaas = createClient({ baseUrl: process.env.EAAS_URL, apiKey: process.env.EAAS_API_KEY })
