import { createBroker } from '@eaas/sdk/broker'

const broker = createBroker({
  baseUrl: process.env.EAAS_URL,
  apiKey: process.env.EAAS_API_KEY,
  authenticate: (request) => (request.headers.get('cookie')?.includes('session=ada') ? { id: 'ada' } : undefined),
  allow: () => true,
})

export const POST = (request) => broker(request)
