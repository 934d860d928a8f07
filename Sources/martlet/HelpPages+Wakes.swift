// The page of `martlet wake`.

extension HelpPages {
    static let wake = """
        martlet wake set --user USER --kind KIND --address ADDRESS [--device NAME]
        martlet wake list --user USER
        martlet wake remove --user USER --id ID
        martlet wake test --user USER [--id ID]
        martlet wake log --user USER [--count N] [--follow]
        martlet wake template set --kind KIND (--file FILE | --template JSON)
        martlet wake template try --kind KIND [--file FILE | --template JSON]
        martlet wake template list
        martlet wake template remove --kind KIND

        Wake targets say where a relay reaches a user of whom no device is connected
        (docs/operating/wake-ups.md). A user has at most 8. Setting one again with the same device,
        kind and address changes its other properties.

        set
          --kind KIND          webhook, apns, fcm, sms-webhook, mqtt or udp
          --address ADDRESS    a URL, a token of Apple or Google, a telephone number with +, a
                               topic, or HOST:PORT
          --device NAME        the device that it wakes; any device if absent
          --environment E      production or sandbox; production if absent
          --language TAG       such as de or pt-BR

        test                 asks the relay to wake the user now, at all targets or at the one of
                               --id

        log                  shows what the relay reported since the broker was started: what
                             was asked, sent, refused and dropped, and why. At most 100 entries
          --count N, -n        only the latest N
          --follow, -f         waits for more

        template             what a relay sends to targets of a kind, in place of its own template:
                             an object of JSON5 with variables such as ${count}
                             (docs/operating/push.md). try shows what a target would get for a
                             sample, and sets nothing; without a template, that of the app
          --file FILE          the template
          --template JSON      the same as an argument

        all of them
          --json               one JSON object per line

        \(administration)
        """
}
