// One of three tasks for MQTT.js, as a user would write it; prints "topic payload" for each message received.
//
// usage: node client.js subscribe|publish|receive HOST:PORT 4|5 CLIENT-ID TOPIC [PAYLOAD... | COUNT]
'use strict'

const mqtt = require('mqtt')

const [task, addr, version, clientId, topic, ...rest] = process.argv.slice(2)
const options = { protocolVersion: Number(version), clientId, clean: false, reconnectPeriod: 0 }
if (version === '5') options.properties = { sessionExpiryInterval: 3600 }

const timer = setTimeout(() => fail('timeout'), 20000)

function fail (why) {
  console.error(String(why))
  process.exit(1)
}

async function main () {
  const client = mqtt.connect('mqtt://' + addr, options)
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
