// The same model of an application that uses `require`, and so the SDK's copy for CommonJS.
const { createClient, text } = require('@eaas/sdk')

const { EAAS_URL: baseUrl, APP_API_KEY: apiKey, APP_KEY_ID: keyId } = process.env
module.exports = createClient({ baseUrl, apiKey }).model({
  name: 'people',
  keyId,
  bind: ['id'],
  format: 'text',
  fields: { email: text({ index: 'emailIndex', normalize: ['lowercase'] }), phone: text().nullable() },
})
