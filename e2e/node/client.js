// One of three tasks for MQTT.js, as a user would write it; prints "topic payload" for each message received.
//
// usage: node client.js subscribe|publish|receive URL 4|5 CLIENT-ID TOPIC [PAYLOAD... | COUNT]
//
// The URL's scheme is tcp, tls, ws, wss or unix; ?ca=FILE&cert=FILE&key=FILE are for TLS.
'use strict'

const fs = require('fs')
const mqtt = require('mqtt')

const [task, addr, version, clientId, topic, ...rest] = process.argv.slice(2)
const url = new URL(addr)
const options = { protocolVersion: Number(version), clientId, clean: false, reconnectPeriod: 0 }
if (version === '5') options.properties = { sessionExpiryInterval: 3600 }

for (const name of ['ca', 'cert', 'key']) {
  if (url.searchParams.has(name)) options[name] = fs.readFileSync(url.searchParams.get(name))
}
url.search = ''
if (url.protocol === 'tls:') url.protocol = 'mqtts:' // with a certificate MQTT.js knows no other name for it

const timer = setTimeout(() => fail('timeout'), 20000)

function fail (why) {
  console.error(String(why))
  process.exit(1)
}

async function main () {
  const client = mqtt.connect(url.href, options)
  client.on('error', fail)
  let left = Number(rest[0])
  const received = new Promise(resolve => {
    client.on('message', (t, payload) => {
      console.log(t, payload.toString())
      if (--left === 0) resolve()
    })
  })
  await new Promise(resolve => client.once('connect', resolve))
  if (task === 'subscribe') await client.subscribeAsync(topic, { qos: 2 })
  if (task === 'publish') for (const payload of rest) await client.publishAsync(topic, payload, { qos: 2 })
  if (task === 'receive') {
    await received
    await new Promise(resolve => setImmediate(resolve)) // the last handshake goes out
  }
  await client.endAsync()
  clearTimeout(timer)
}

main().catch(fail)
