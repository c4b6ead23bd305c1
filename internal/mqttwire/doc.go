// Package mqttwire is the codec for every packet and every property of MQTT
// 3.1.1 and MQTT 5, in both directions. It is pure: no input or output, no
// clock, no state between packets, and it imports nothing of emanet's.
//
// # Packets
//
//	CONNECT      Connect      DecodeConnect      AppendConnect
//	CONNACK      Connack      DecodeConnack      AppendConnack
//	PUBLISH      Publish      DecodePublish      AppendPublish, PublishSize
//	  as sent by a server: Delivery              AppendDelivery, AppendDeliveryHead, DeliverySize
//	PUBACK, PUBREC, PUBREL, PUBCOMP
//	             Ack          DecodeAck          AppendAck, AppendAckCode
//	SUBSCRIBE    Subscribe    DecodeSubscribe    AppendSubscribe
//	SUBACK       Suback       DecodeSuback       AppendSuback
//	UNSUBSCRIBE  Unsubscribe  DecodeUnsubscribe  AppendUnsubscribe
//	UNSUBACK     Unsuback     DecodeUnsuback     AppendUnsuback
//	PINGREQ      –            –                  AppendPingreq
//	PINGRESP     –            –                  AppendPingresp
//	DISCONNECT   Disconnect   DecodeDisconnect   AppendDisconnect
//	AUTH         Auth         DecodeAuth         AppendAuth
//
// A reader calls Next on what it has read, gives the Frame to the decoder its
// Type names, and asks Size how much room a packet needs that is not all here.
// The version is 0 until CONNECT (or, on the client's side, is the version it
// asked for).
//
// # Aliasing
//
// Decoding copies nothing: Frame.Body aliases the buffer given to Next, and
// every []byte of a decoded packet, those in Properties included, aliases that
// body. They are good until the buffer is written to again; who keeps a packet
// longer copies what it needs. Their capacity ends where they end, so an append
// to one never writes into the buffer. Numbers, flags and reason codes are
// copies. DecodePublish never allocates; the decoders with lists reuse the
// lists of the struct they are given, so one struct per connection is enough.
//
// # Errors
//
// A decoder returns a *ProtocolError with the reason code an MQTT 5 peer is to
// be told, or an *UnsupportedVersionError; after an error the contents of the
// struct mean nothing (but for Connect.Version, and those properties of Connect
// that had been read). Memory stays within a small
// multiple of the packet's bytes whatever they say.
//
// Encoders trust their caller: to ask for a packet that no peer could read
// (a string over 65,535 bytes, packet identifier 0, a property in the wrong
// packet) is a programming error and panics. In 3.1.1 what that version cannot
// say is left out.
//
// What a packet means in its place is not the codec's business: order of
// packets, limits announced in CONNECT and CONNACK, topic filter syntax, and
// which side may send what.
package mqttwire
