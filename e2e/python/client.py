"""One of three tasks for paho-mqtt, as a user would write it; prints "topic payload" for each message received.

usage: client.py subscribe|publish|receive URL 4|5 CLIENT-ID TOPIC [PAYLOAD... | COUNT]

The URL's scheme is tcp, tls, ws or wss; ?ca=FILE&cert=FILE&key=FILE are for TLS.
"""

import sys
import threading
from urllib.parse import parse_qs, urlsplit

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

task, addr, version, client_id, topic = sys.argv[1:6]
url = urlsplit(addr)
files = {name: values[0] for name, values in parse_qs(url.query).items()}
transport = "websockets" if url.scheme in ("ws", "wss") else "tcp"
done = threading.Event()
PATIENCE = 20

if version == "5":
    client = mqtt.Client(client_id, protocol=mqtt.MQTTv5, transport=transport)
    properties = Properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval = 3600
    how = {"clean_start": False, "properties": properties}
else:
    client = mqtt.Client(client_id, clean_session=False, protocol=mqtt.MQTTv311, transport=transport)
    how = {}
if transport == "websockets":
    client.ws_set_options(path=url.path)
if url.scheme in ("tls", "wss"):
    client.tls_set(files["ca"], files.get("cert"), files.get("key"))

connected = threading.Event()
client.on_connect = lambda *args: connected.set()


def must(event, what):
    if not event.wait(PATIENCE):
        sys.exit("timeout: " + what)


def begin():
    client.connect(url.hostname, url.port, **how)
    client.loop_start()
    must(connected, "CONNACK")


def end():
    client.disconnect()
    client.loop_stop()


if task == "subscribe":
    client.on_subscribe = lambda *args: done.set()
    begin()
    client.subscribe(topic, 2)
    must(done, "SUBACK")
elif task == "publish":
    begin()
    for payload in sys.argv[6:]:
        info = client.publish(topic, payload, qos=2)
        info.wait_for_publish(PATIENCE)
        if not info.is_published():
            sys.exit("timeout: PUBCOMP")
else:
    left = [int(sys.argv[6])]

    def on_message(_client, _userdata, message):
        print(message.topic, message.payload.decode(), flush=True)
        left[0] -= 1
        if left[0] == 0:
            done.set()

    client.on_message = on_message
    begin()
    must(done, "messages")
end()
